#include "daemon/metadata_commands.h"

#include <fmt/core.h>

#include <fstream>
#include <iostream>
#include <iterator>

#include "base/durable_file.h"
#include "base/logging.h"
#include "base/random.h"
#include "coordinator/metadata/metadata_export.h"
#include "daemon/metadata_place.h"
#include "runtime/epoll_source.h"

namespace ramcloud::daemon {
namespace {

constexpr Duration kPatience = 30s;
constexpr size_t kMaxExportBytes = 256u << 20;

/// An open store with its reactor.
struct OpenStore {
  SystemClock clock;
  EpollSource events;
  Reactor reactor{clock, events, entropy_seed(), {}};
  std::unique_ptr<MetadataStore> store;

  Status open(const MetadataPlace& place, IfMissing if_missing) {
    auto opened = open_metadata(reactor, place, if_missing);
    if (!opened) return std::move(opened.error());
    store = std::move(*opened);
    return {};
  }
  Time deadline() const { return clock.now() + kPatience; }
};

Status write_text(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::cout << text << std::flush;
    return std::cout ? Status() : Status(StatusCode::kIoError, "standard output cannot be written");
  }
  const Status written = replace_file(path, text);
  return written.ok() ? written : Status(written.code(), "--file: " + written.message());
}

Result<std::string> read_text(const std::string& path) {
  std::ifstream file;
  if (path != "-") file.open(path, std::ios::binary);
  std::istream& in = path == "-" ? std::cin : file;
  std::string text;
  char buffer[65536];
  while (in.read(buffer, sizeof buffer), in.gcount() > 0) {
    text.append(buffer, static_cast<size_t>(in.gcount()));
    if (text.size() > kMaxExportBytes) {
      return fail(StatusCode::kInvalidArgument,
                  fmt::format("--file: '{}' is larger than any export of metadata", path));
    }
  }
  if (in.bad() || (path != "-" && !file.is_open())) {
    return fail(StatusCode::kIoError, fmt::format("--file: '{}' cannot be read", path));
  }
  return text;
}

}  // namespace

Status export_metadata(const MetadataOptions& options) {
  OpenStore open;
  RC_RETURN_IF_ERROR(open.open(options.metadata, IfMissing::kRefuse));
  const auto records = run_task(open.reactor, read_all(open.reactor, *open.store, open.deadline()));
  if (!records) return records.error();
  const auto text = format_export(*records);
  if (!text) return text.error();
  return write_text(options.file, *text);
}

Status import_metadata(const MetadataOptions& options) {
  const auto text = read_text(options.file);
  if (!text) return text.error();
  const auto records = parse_export(*text);
  if (!records) return records.error();
  OpenStore open;
  RC_RETURN_IF_ERROR(open.open(options.metadata, IfMissing::kMake));
  Status done =
      run_task(open.reactor, import_records(open.reactor, *open.store, *records, open.deadline()));
  if (done.ok()) {
    log_info("metadata.imported",
             {{"records", records->size()}, {"to", options.metadata.to_string()}});
  }
  return done;
}

}  // namespace ramcloud::daemon
