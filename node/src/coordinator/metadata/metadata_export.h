// All metadata of a cluster as text, to be kept, or moved from one kind of store to another. See
// docs/formats.md ("Metadata").
#pragma once

#include <string>
#include <string_view>

#include "coordinator/metadata/metadata_store.h"
#include "runtime/reactor.h"

namespace ramcloud {

inline constexpr int kExportVersion = 1;

/// The records of a store as an export. NOT_FOUND: there is no cluster in them; CORRUPT,
/// UNSUPPORTED: they are damaged or of another format; INTERNAL: they contradict each other.
Result<std::string> format_export(const MetadataStore::Records& records);

/// The records of an export. INVALID_ARGUMENT, UNSUPPORTED, CORRUPT: it is none, of another
/// version, damaged or cut short; the message names the line.
Result<MetadataStore::Records> parse_export(std::string_view text);

/// Reads a store, waiting for it until the deadline.
Task<Result<MetadataStore::Records>> read_all(Reactor& reactor, MetadataStore& store,
                                              Time deadline);

/// What may have happened since an export was made is not known. So terms, ids, and the number of
/// the last change jump by this, and nothing that was given out meanwhile is given out again: below
/// 2^32 of each in the life of an export.
inline constexpr uint64_t kImportGap = uint64_t{1} << 32;
/// The jump of the admin API's revisions. Earlier versions used up 2^32 of them at each start.
inline constexpr uint64_t kRevisionsGap = uint64_t{1} << 56;

/// Makes the records of an export, of whatever age, those of an import: the first leader asks live
/// servers what they own. CORRUPT, UNSUPPORTED.
Status leave_gap(MetadataStore::Records& records);

/// Leaves the gap, and writes records into a store that has none, or only those of an import that
/// was broken off. EXISTS: it has others; UNAVAILABLE: a coordinator uses it, or took it over
/// meanwhile, or it does not answer until the deadline; what format_export() says. A coordinator
/// refuses to start on half an import.
Task<Status> import_records(Reactor& reactor, MetadataStore& store, MetadataStore::Records records,
                            Time deadline);

}  // namespace ramcloud
