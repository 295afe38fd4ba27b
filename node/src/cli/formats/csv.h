// CSV as in RFC 4180: fields separated by commas, records ended by CRLF or LF, a field with commas,
// quotes or line ends in quotes, with "" for a quote inside. No library, because a record has to be
// bounded before it is read whole, and an import continues at the byte where a record begins.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace ramcloud::cli {

class CsvReader {
 public:
  /// Longer records are refused before they are read whole.
  CsvReader(std::istream& in, size_t max_record_bytes) : in_(in), max_(max_record_bytes) {}

  /// The fields of the next record; false at the end. Empty lines are skipped, as is a byte order
  /// mark at the beginning of the input. INVALID_ARGUMENT names the field and what is accepted;
  /// IO_ERROR: the stream failed. Fields may contain any bytes, which are kept unchanged.
  Result<bool> next(std::vector<std::string>& fields);

  uint64_t record_line() const { return record_line_; }  // first line of the last record, from 1
  uint64_t lines_read() const { return lines_; }
  uint64_t bytes_read() const { return bytes_; }
  /// Tells that the stream was positioned at the beginning of a record, after so many bytes and
  /// lines.
  void continue_at(uint64_t bytes, uint64_t lines);

 private:
  static constexpr int kEnd = -1;
  int peek();
  int take();
  bool take_line_end(int c);
  Result<bool> quoted_field(std::string& field);
  Result<bool> plain_field(int first, std::string& field);
  Status refuse(const std::string& what) const;

  std::istream& in_;
  size_t max_;
  std::string buffer_;
  size_t at_ = 0;
  uint64_t bytes_ = 0;
  uint64_t lines_ = 0;
  uint64_t record_line_ = 0;
  uint64_t record_begin_ = 0;
  size_t field_number_ = 0;  // from 1
};

/// The text of a field, in quotes if necessary.
std::string csv_field(std::string_view text);

}  // namespace ramcloud::cli
