// All metadata of a cluster as text, to be kept, or moved from one kind of store to another. See
// docs/formats.md ("Metadata").
#pragma once

#include <string>
#include <string_view>

#include "coordinator/metadata_store.h"
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

/// Writes records into a store that has none, or only those of an import that was broken off.
/// EXISTS: it has others; UNAVAILABLE: a coordinator uses it, or took it over meanwhile, or it does
/// not answer until the deadline; what format_export() says. A coordinator refuses to start on half
/// an import.
Task<Status> import_records(Reactor& reactor, MetadataStore& store, MetadataStore::Records records,
                            Time deadline);

}  // namespace ramcloud
