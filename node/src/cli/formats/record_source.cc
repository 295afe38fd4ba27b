#include "cli/formats/record_source.h"

#include <fmt/core.h>

#include <vector>

#include "base/text.h"
#include "cli/formats/base64.h"
#include "cli/formats/csv.h"
#include "cli/formats/line_reader.h"
#include "cli/formats/output.h"
#include "client/core.h"

namespace ramcloud::cli {
namespace {

constexpr const char* kBase64Suffix = "_b64";

bool is_base64(const std::string& column) {
  return column.ends_with(kBase64Suffix);
}

/// A whole key and value, every byte escaped as \u00NN, and the field names.
constexpr size_t kMaxLineBytes = 6 * (size_t{wire::kMaxKeyBytes} + wire::kMaxValueBytes) + 64;
/// Every byte may be a quote; twice that, to allow for other columns.
constexpr size_t kMaxCsvRecordBytes = 4 * (size_t{wire::kMaxKeyBytes} + wire::kMaxValueBytes);

class JsonLinesSource final : public RecordSource {
 public:
  explicit JsonLinesSource(std::istream& in) : lines_(in, kMaxLineBytes) {}
  Result<bool> next(Record& record) override {
    std::string_view line;
    auto more = lines_.next(line);
    if (!more || !*more) return more;
    auto parsed = parse_record(line);
    if (!parsed) return fail(std::move(parsed.error()));
    record = std::move(*parsed);
    return true;
  }
  uint64_t line() const override { return lines_.line_number(); }
  FilePosition position() const override { return {lines_.bytes_read(), lines_.line_number()}; }
  void continue_at(const FilePosition& position) override {
    lines_.continue_at(position.bytes, position.lines);
  }

 private:
  LineReader lines_;
};

class CsvSource final : public RecordSource {
 public:
  CsvSource(std::istream& in, CsvColumns columns)
      : csv_(in, kMaxCsvRecordBytes), columns_(std::move(columns)) {}

  Status begin() override {
    auto more = csv_.next(fields_);
    if (!more) return std::move(more.error());
    if (!*more) {
      return {StatusCode::kInvalidArgument,
              fmt::format("there is no header line; accepted is one that names the columns, like "
                          "{}",
                          format_csv_header(columns_))};
    }
    header_ = fields_;
    RC_RETURN_IF_ERROR(find(columns_.key, "--key-column", key_));
    return find(columns_.value, "--value-column", value_);
  }

  Result<bool> next(Record& record) override {
    auto more = csv_.next(fields_);
    if (!more || !*more) return more;
    if (fields_.size() != header_.size()) {
      return fail(StatusCode::kInvalidArgument,
                  fmt::format("the record has {} fields; accepted are {}, as the header has",
                              fields_.size(), header_.size()));
    }
    auto key = decoded(columns_.key, fields_[key_], check_key);
    if (!key) return fail(std::move(key.error()));
    auto value = decoded(columns_.value, fields_[value_], check_value);
    if (!value) return fail(std::move(value.error()));
    record = {std::move(*key), std::move(*value)};
    return true;
  }
  uint64_t line() const override { return csv_.record_line(); }
  FilePosition position() const override { return {csv_.bytes_read(), csv_.lines_read()}; }
  void continue_at(const FilePosition& position) override {
    csv_.continue_at(position.bytes, position.lines);
  }

 private:
  Status find(const std::string& name, const char* flag, size_t& index) const {
    size_t found = 0;
    std::string names;
    for (size_t i = 0; i < header_.size(); ++i) {
      names += (i == 0 ? "" : ", ") + printable(header_[i].substr(0, 100));
      if (header_[i] != name) continue;
      index = i;
      ++found;
    }
    if (found == 1) return {};
    return {StatusCode::kInvalidArgument,
            found == 0
                ? fmt::format("there is no column '{}'; accepted with {} is one of: {}", name, flag,
                              names)
                : fmt::format("the column '{}' is there {} times; accepted is once", name, found)};
  }

  template <typename Check>
  static Result<std::string> decoded(const std::string& column, const std::string& field,
                                     Check check) {
    std::string bytes;
    if (is_base64(column)) {
      auto plain = base64_decode(field);
      if (!plain) {
        return fail(StatusCode::kInvalidArgument,
                    fmt::format("field {}: {}", column, plain.error().message()));
      }
      bytes = std::move(*plain);
    } else {
      bytes = field;
    }
    if (const Status checked = check(bytes); !checked.ok()) {
      return fail(StatusCode::kInvalidArgument,
                  fmt::format("field {}: {}", column, checked.message()));
    }
    return bytes;
  }

  CsvReader csv_;
  const CsvColumns columns_;
  std::vector<std::string> header_, fields_;
  size_t key_ = 0, value_ = 0;  // indexes of the fields
};

Result<std::string> encoded(const std::string& column, const char* flag, std::string_view bytes) {
  if (is_base64(column)) return base64_encode(bytes);
  if (is_valid_utf8(bytes)) return csv_field(bytes);
  return fail(
      StatusCode::kInvalidArgument,
      fmt::format("column '{}': '{}' is not UTF-8 text; accepted is any with {} {}{}, which "
                  "is base64",
                  column, printable(bytes.substr(0, 100)), flag, column, kBase64Suffix));
}

}  // namespace

std::unique_ptr<RecordSource> make_record_source(FileFormat format, const CsvColumns& columns,
                                                 std::istream& in) {
  if (format == FileFormat::kCsv) return std::make_unique<CsvSource>(in, columns);
  return std::make_unique<JsonLinesSource>(in);
}

Result<std::string> format_csv_record(const CsvColumns& columns, std::string_view key,
                                      std::string_view value) {
  auto first = encoded(columns.key, "--key-column", key);
  if (!first) return first;
  auto second = encoded(columns.value, "--value-column", value);
  if (!second) return second;
  return *first + "," + *second;
}

std::string format_csv_header(const CsvColumns& columns) {
  return csv_field(columns.key) + "," + csv_field(columns.value);
}

}  // namespace ramcloud::cli
