// Opens the metadata store that --metadata names.
#pragma once

#include <memory>

#include "coordinator/metadata/metadata_store.h"
#include "daemon/options.h"
#include "runtime/reactor.h"

namespace ramcloud::daemon {

/// What to do if the SQLite file does not exist.
enum class IfMissing : uint8_t { kMake, kRefuse };

/// Creates a missing SQLite file and its folder, or answers NOT_FOUND. Errors name the path or the
/// flag.
Result<std::unique_ptr<MetadataStore>> open_metadata(Reactor& reactor, const MetadataPlace& place,
                                                     IfMissing if_missing = IfMissing::kMake);

}  // namespace ramcloud::daemon
