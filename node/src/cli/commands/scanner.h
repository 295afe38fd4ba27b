// Iterates over all objects of a table, page by page.
#pragma once

#include <functional>

#include "base/status.h"
#include "cli/session.h"

namespace ramcloud::cli {

/// Calls `visit` for each object until it returns false.
Status for_each_object(Session& session, uint64_t table_id, bool keys_only,
                       const std::function<bool(const ScannedObject&)>& visit);

}  // namespace ramcloud::cli
