#include "cli/formats/line_reader.h"

#include <fmt/core.h>

namespace ramcloud::cli {

bool LineReader::fill() {
  constexpr size_t kPiece = 256 * 1024;
  buffer_.erase(0, begin_);
  begin_ = 0;
  const size_t had = buffer_.size();
  buffer_.resize(had + kPiece);
  in_.read(buffer_.data() + had, kPiece);
  buffer_.resize(had + static_cast<size_t>(in_.gcount()));
  return buffer_.size() > had;
}

Result<bool> LineReader::next(std::string_view& line) {
  size_t searched = begin_;
  for (;;) {
    const size_t end = buffer_.find('\n', searched);
    if (end != std::string::npos) {
      line = std::string_view(buffer_).substr(begin_, end - begin_);
      bytes_ += line.size() + 1;
      begin_ = end + 1;
      break;
    }
    const size_t pending = buffer_.size() - begin_;
    if (pending <= max_ + 1 && fill()) {
      searched = pending;
      continue;
    }
    if (in_.bad()) return fail(StatusCode::kIoError, "the input cannot be read");
    line = std::string_view(buffer_).substr(begin_);
    bytes_ += line.size();
    begin_ = buffer_.size();
    if (line.empty()) return false;
    break;
  }
  ++number_;
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.size() > max_) {
    return fail(StatusCode::kInvalidArgument, fmt::format("the line has more than {} bytes", max_));
  }
  return true;
}

}  // namespace ramcloud::cli
