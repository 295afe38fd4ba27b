// Opens the metadata store that --metadata names.
#pragma once

#include <memory>

#include "coordinator/metadata/metadata_store.h"
#include "daemon/options.h"
#include "runtime/reactor.h"

namespace ramcloud::daemon {

/// What opening does when there is no SQLite file yet.
enum class IfMissing : uint8_t { kMake, kRefuse };

/// Makes a SQLite file and its folder if need be, or says NOT_FOUND. Errors name path or flag.
Result<std::unique_ptr<MetadataStore>> open_metadata(Reactor& reactor, const MetadataPlace& place,
                                                     IfMissing if_missing = IfMissing::kMake);

}  // namespace ramcloud::daemon
