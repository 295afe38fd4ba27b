// The sources of objects for import: JSON lines or CSV.
#pragma once

#include <cstdint>
#include <istream>
#include <memory>
#include <string>

#include "base/status.h"
#include "cli/formats/record.h"

namespace ramcloud::cli {

enum class FileFormat : uint8_t { kJsonLines, kCsv };

/// The columns of a CSV file with key and value. If a name ends in "_b64", its fields are base64.
struct CsvColumns {
  std::string key = "key";
  std::string value = "value";
};

/// The position after the last returned record.
struct FilePosition {
  uint64_t bytes = 0;
  uint64_t lines = 0;
};

class RecordSource {
 public:
  virtual ~RecordSource() = default;
  /// Reads what precedes the objects (CSV: the header line). Called once, first.
  virtual Status begin() { return {}; }
  /// The next object; false at the end. INVALID_ARGUMENT names the field, what it has and what is
  /// accepted.
  virtual Result<bool> next(Record& record) = 0;
  /// The first line of the last record, or of the refused input; from 1.
  virtual uint64_t line() const = 0;
  virtual FilePosition position() const = 0;
  /// Tells that the stream was positioned at this position of an earlier run.
  virtual void continue_at(const FilePosition& position) = 0;
};

std::unique_ptr<RecordSource> make_record_source(FileFormat format, const CsvColumns& columns,
                                                 std::istream& in);

/// One line of a CSV file, without its end. INVALID_ARGUMENT: the bytes are not text, and the
/// column's name does not end in "_b64".
Result<std::string> format_csv_record(const CsvColumns& columns, std::string_view key,
                                      std::string_view value);
std::string format_csv_header(const CsvColumns& columns);

}  // namespace ramcloud::cli
