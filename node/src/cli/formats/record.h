// The format of import, export and scan: JSON lines, one object on each line:
//   {"key":"text","value":"text"}           both are valid UTF-8
//   {"key_b64":"…","value_b64":"…"}         base64, where the bytes are not text (each on its own)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ramcloud::cli {

struct Record {
  std::string key;
  std::string value;
};

/// Parses one line (without its end). INVALID_ARGUMENT names the field, its value and what is
/// accepted. Strict: no other fields, none twice, sizes within the data model's limits.
Result<Record> parse_record(std::string_view line);

struct RecordExtras {
  std::optional<uint64_t> version;
  std::optional<uint64_t> table_id;  // written as "table", before all other fields
  bool with_value = true;
};
/// One line without its end. Text is unchanged, except for JSON escapes.
std::string format_record(std::string_view key, std::string_view value, const RecordExtras& extras);
inline std::string format_record(std::string_view key, std::string_view value) {
  return format_record(key, value, RecordExtras{});
}

}  // namespace ramcloud::cli
