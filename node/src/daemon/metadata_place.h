// Opens the metadata store that --metadata names.
#pragma once

#include <memory>

#include "coordinator/metadata_store.h"
#include "daemon/options.h"
#include "runtime/reactor.h"

namespace ramcloud::daemon {

/// Makes the folder of a SQLite file if need be. Errors name path or flag.
Result<std::unique_ptr<MetadataStore>> open_metadata(Reactor& reactor, const MetadataPlace& place);

}  // namespace ramcloud::daemon
