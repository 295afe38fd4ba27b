#include "cli/formats/record.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/formats/base64.h"
#include "client/core.h"

namespace ramcloud::cli {
namespace {

using nlohmann::json;

Status refuse(std::string message) {
  return {StatusCode::kInvalidArgument, std::move(message)};
}

/// Receives the fields one by one from the parser, so that an unknown or repeated field is refused
/// instead of ignored.
class RecordSax final : public json::json_sax_t {
 public:
  Record record;
  Status status;
  bool has_key = false, has_value = false;

  bool null() override { return wrong_type("null"); }
  bool boolean(bool) override { return wrong_type("true or false"); }
  bool number_integer(int64_t) override { return wrong_type("a number"); }
  bool number_unsigned(uint64_t) override { return wrong_type("a number"); }
  bool number_float(double, const std::string&) override { return wrong_type("a number"); }
  bool binary(json::binary_t&) override { return wrong_type("binary"); }
  bool start_array(std::size_t) override { return wrong_type("a list"); }
  bool end_array() override { return true; }
  bool start_object(std::size_t) override {
    if (inside_) return wrong_type("an object");
    inside_ = true;
    return true;
  }
  bool end_object() override { return true; }

  bool key(std::string& name) override {
    field_ = name;
    const bool is_key = name == "key" || name == "key_b64";
    if (!is_key && name != "value" && name != "value_b64") {
      status = refuse(
          fmt::format("field {} is not known; accepted are key or key_b64, and value or value_b64",
                      json_string(name)));
      return false;
    }
    bool& seen = is_key ? has_key : has_value;
    if (seen) {
      status = refuse(fmt::format("field {}: the {} is given twice; accepted is once", name,
                                  is_key ? "key" : "value"));
      return false;
    }
    seen = true;
    return true;
  }

  bool string(std::string& text) override {
    if (!inside_) return wrong_type("a string");
    std::string bytes;
    if (field_.ends_with("_b64")) {
      auto decoded = base64_decode(text);
      if (!decoded) {
        status = refuse(fmt::format("field {}: {}", field_, decoded.error().message()));
        return false;
      }
      bytes = std::move(*decoded);
    } else {
      bytes = std::move(text);
    }
    const bool is_key = field_.starts_with("key");
    status = is_key ? check_key(bytes) : check_value(bytes);
    if (!status.ok()) {
      status = refuse("field " + field_ + ": " + status.message());
      return false;
    }
    (is_key ? record.key : record.value) = std::move(bytes);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const json::exception& e) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 5: syntax error …": extract
    // the useful part.
    std::string_view what = e.what();
    if (const size_t colon = what.find(": "); colon != std::string_view::npos) {
      what = what.substr(colon + 2);
    }
    status = refuse(fmt::format("not JSON at byte {}: {}", position, what));
    return false;
  }

 private:
  bool wrong_type(const char* what) {
    status = inside_ ? refuse(fmt::format("field {}: it is {}; accepted is a string", field_, what))
                     : refuse(fmt::format("the line is {}; accepted is an object like "
                                          "{{\"key\":\"…\",\"value\":\"…\"}}",
                                          what));
    return false;
  }
  std::string field_;
  bool inside_ = false;
};

void append_field(std::string& line, const char* name, std::string_view bytes) {
  line += line.size() == 1 ? "\"" : ",\"";
  line += name;
  if (is_valid_utf8(bytes)) {
    line += "\":";
    line += json(bytes).dump();
  } else {
    line += "_b64\":\"";
    line += base64_encode(bytes);
    line += '"';
  }
}

}  // namespace

Result<Record> parse_record(std::string_view line) {
  RecordSax sax;
  json::sax_parse(line.begin(), line.end(), &sax);
  if (!sax.status.ok()) return fail(std::move(sax.status));
  if (!sax.has_key) return fail(refuse("there is no key; accepted is a field key or key_b64"));
  if (!sax.has_value) {
    return fail(refuse("there is no value; accepted is a field value or value_b64"));
  }
  return std::move(sax.record);
}

std::string format_record(std::string_view key, std::string_view value,
                          const RecordExtras& extras) {
  std::string line = "{";
  if (extras.table_id) line += fmt::format("\"table\":{}", *extras.table_id);
  append_field(line, "key", key);
  if (extras.with_value) append_field(line, "value", value);
  if (extras.version) line += fmt::format(",\"version\":{}", *extras.version);
  line += '}';
  return line;
}

}  // namespace ramcloud::cli
