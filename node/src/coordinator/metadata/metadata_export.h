// All metadata of a cluster as text, for backup or to move it to another kind of store. See
// docs/formats.md ("Metadata").
#pragma once

#include <string>
#include <string_view>

#include "coordinator/metadata/metadata_store.h"
#include "runtime/reactor.h"

namespace ramcloud {

inline constexpr int kExportVersion = 1;

/// The records of a store as an export. NOT_FOUND: they contain no cluster; CORRUPT, UNSUPPORTED:
/// damaged or another format; INTERNAL: they contradict each other.
Result<std::string> format_export(const MetadataStore::Records& records);

/// The records of an export. INVALID_ARGUMENT, UNSUPPORTED, CORRUPT: the text is not an export, has
/// another version, is damaged or cut off; the message names the line.
Result<MetadataStore::Records> parse_export(std::string_view text);

/// Reads a store, waiting for it until the deadline.
Task<Result<MetadataStore::Records>> read_all(Reactor& reactor, MetadataStore& store,
                                              Time deadline);

/// It is not known what happened after an export was made. So terms, ids, and the number of the
/// last change jump by this, so that no value assigned since is assigned again. That holds for
/// fewer than 2^32 of each after the export.
inline constexpr uint64_t kImportGap = uint64_t{1} << 32;
/// The jump of the admin API's revisions. Earlier versions used up 2^32 of them at each start.
inline constexpr uint64_t kRevisionsGap = uint64_t{1} << 56;

/// Prepares the records of an export of any age for an import: raises the counters, and makes the
/// first leader ask live servers what they own. CORRUPT, UNSUPPORTED.
Status leave_gap(MetadataStore::Records& records);

/// Leaves the gap, and writes the records into an empty store, or one with only those of an
/// interrupted import. EXISTS: the store has other records; UNAVAILABLE: a coordinator uses it, or
/// took it over meanwhile, or it does not answer before the deadline; errors of format_export(). A
/// coordinator refuses to start on an unfinished import.
Task<Status> import_records(Reactor& reactor, MetadataStore& store, MetadataStore::Records records,
                            Time deadline);

}  // namespace ramcloud
