#include "daemon/metadata_place.h"

#include <fmt/core.h>

#include <filesystem>

#include "coordinator/metadata/etcd_metadata.h"
#include "coordinator/metadata/sqlite_metadata.h"

namespace ramcloud::daemon {

Result<std::unique_ptr<MetadataStore>> open_metadata(Reactor& reactor, const MetadataPlace& place,
                                                     IfMissing if_missing) {
  if (place.etcd) return EtcdMetadata::open(reactor, *place.etcd);
  std::error_code error;
  if (if_missing == IfMissing::kRefuse && !std::filesystem::exists(place.sqlite_path, error)) {
    return fail(StatusCode::kNotFound,
                fmt::format("--metadata: there is no file '{}'", place.sqlite_path));
  }
  const std::filesystem::path folder = std::filesystem::path(place.sqlite_path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) {
    return fail(StatusCode::kIoError, fmt::format("--metadata: cannot make the folder '{}': {}",
                                                  folder.string(), error.message()));
  }
  return SqliteMetadata::open(reactor, place.sqlite_path);
}

}  // namespace ramcloud::daemon
