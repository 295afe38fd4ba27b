// `ramcloudd metadata export` and `import`.
#pragma once

#include "daemon/options.h"

namespace ramcloud::daemon {

Status export_metadata(const MetadataOptions& options);
Status import_metadata(const MetadataOptions& options);

}  // namespace ramcloud::daemon
