// Files that are replaced atomically, even in a crash.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace ramcloud {

/// Replaces the content of the file: writes and syncs a temporary file beside it, renames it, and
/// syncs the folder. After a crash the file has either the old or the new bytes; when this is OK,
/// the new ones. IO_ERROR names the file. A path that is not a plain file, such as a device, is not
/// replaced.
Status replace_file(const std::string& path, std::string_view bytes);

/// The same with an existing file `written` beside it, which is synced and renamed; removed if it
/// cannot be synced.
Status replace_file_by(const std::string& path, const std::string& written);

}  // namespace ramcloud
