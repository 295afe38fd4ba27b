// Where import takes its objects from: JSON lines or CSV.
#pragma once

#include <cstdint>
#include <istream>
#include <memory>
#include <string>

#include "base/status.h"
#include "cli/formats/record.h"

namespace ramcloud::cli {

enum class FileFormat : uint8_t { kJsonLines, kCsv };

/// Which columns of a CSV file are the object. A name that ends in "_b64" says that its fields are
/// base64.
struct CsvColumns {
  std::string key = "key";
  std::string value = "value";
};

/// Behind the last record that was given out.
struct FilePosition {
  uint64_t bytes = 0;
  uint64_t lines = 0;
};

class RecordSource {
 public:
  virtual ~RecordSource() = default;
  /// What stands before the objects (CSV: the header line). Once, at the begin.
  virtual Status begin() { return {}; }
  /// The next object; false at the end. INVALID_ARGUMENT names the field, what it has and what is
  /// accepted.
  virtual Result<bool> next(Record& record) = 0;
  /// Where the last record, or what was refused, begins; from 1.
  virtual uint64_t line() const = 0;
  virtual FilePosition position() const = 0;
  /// The stream was put to this position of an earlier run.
  virtual void continue_at(const FilePosition& position) = 0;
};

std::unique_ptr<RecordSource> make_record_source(FileFormat format, const CsvColumns& columns,
                                                 std::istream& in);

/// One line of a CSV file, without its end. INVALID_ARGUMENT: bytes that are not text, for a column
/// whose name does not end in "_b64".
Result<std::string> format_csv_record(const CsvColumns& columns, std::string_view key,
                                      std::string_view value);
std::string format_csv_header(const CsvColumns& columns);

}  // namespace ramcloud::cli
