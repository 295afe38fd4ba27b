// Reads lines of bounded length from a stream.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ramcloud::cli {

class LineReader {
 public:
  /// Longer lines are refused before they are read whole.
  LineReader(std::istream& in, size_t max_line_bytes) : in_(in), max_(max_line_bytes) {}

  /// The next line without its end ("\n" or "\r\n"), valid until the next call; false at the end.
  /// INVALID_ARGUMENT: the line is too long; IO_ERROR: the stream failed.
  Result<bool> next(std::string_view& line);
  uint64_t line_number() const { return number_; }  // number of the last line, from 1
  uint64_t bytes_read() const { return bytes_; }
  /// Tells that the stream was positioned at the beginning of a line, after so many bytes and
  /// lines.
  void continue_at(uint64_t bytes, uint64_t lines) {
    buffer_.clear();
    begin_ = 0;
    bytes_ = bytes;
    number_ = lines;
  }

 private:
  bool fill();
  std::istream& in_;
  size_t max_;
  std::string buffer_;
  size_t begin_ = 0;  // start of the bytes that were not returned yet
  uint64_t number_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace ramcloud::cli
