// Files that are written as a whole, and are there whole after a crash.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace ramcloud {

/// Puts these bytes in the place of the file: synced beside it, renamed, and the folder synced.
/// After a crash the file has the former bytes or these; when this is OK, these. IO_ERROR names the
/// file. An existing path that is no plain file, such as a device, is not replaced.
Status replace_file(const std::string& path, std::string_view bytes);

/// The same with the file `written` beside it, which is renamed, or removed if it cannot be synced.
Status replace_file_by(const std::string& path, const std::string& written);

}  // namespace ramcloud
