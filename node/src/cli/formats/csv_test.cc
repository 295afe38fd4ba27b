#include "cli/formats/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <sstream>

#include "base/random.h"
#include "cli/formats/record_source.h"

namespace ramcloud::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;
using testing::HasSubstr;

struct Read {
  Rows rows;
  std::optional<Status> failure;
  uint64_t line = 0;
};

Read read_all(const std::string& text, size_t limit = 1000) {
  std::istringstream in(text);
  CsvReader csv(in, limit);
  Read read;
  std::vector<std::string> fields;
  for (;;) {
    auto more = csv.next(fields);
    read.line = csv.record_line();
    if (!more) read.failure = more.error();
    if (!more || !*more) break;
    read.rows.push_back(fields);
  }
  if (!read.failure) EXPECT_EQ(csv.bytes_read(), text.size());
  return read;
}

TEST(Csv, FieldsLinesAndQuotes) {
  const std::pair<const char*, Rows> cases[] = {
      {"", {}},
      {"\n\r\n", {}},
      {"a,b", {{"a", "b"}}},
      {"a,b\n", {{"a", "b"}}},
      {"a,b\r\nc,d\r\n", {{"a", "b"}, {"c", "d"}}},
      {"a,\n,b\n,\n", {{"a", ""}, {"", "b"}, {"", ""}}},
      {"\"a,\"\"b\"\"\r\nc\",d\n", {{"a,\"b\"\r\nc", "d"}}},
      {"\"\",\"\"", {{"", ""}}},
      {"a\n\n\nb\n", {{"a"}, {"b"}}},
      {"\xef\xbb\xbfkey,value\n1,2\n", {{"key", "value"}, {"1", "2"}}},
      {" a , b \n", {{" a ", " b "}}},
  };
  for (const auto& [text, rows] : cases) {
    const Read read = read_all(text);
    EXPECT_FALSE(read.failure) << text << ": " << read.failure->to_string();
    EXPECT_EQ(read.rows, rows) << text;
  }
}

TEST(Csv, ErrorsNameTheLineTheFieldAndWhatIsAccepted) {
  const struct {
    std::string text;
    uint64_t line;
    const char* says;
  } cases[] = {
      {"a,b\nc,d\"e\n", 2, "field 2: it has a quote inside; accepted is that in a field in quotes"},
      {"a\rb\n", 1, "field 1: it has a carriage return inside"},
      {"a,\"b\nc\nd", 1, "field 2: its quotes are not closed"},
      {"x\n\"a\nb\"c,d\n", 2, "field 1: text follows its closing quote"},
      {"a,b\n" + std::string(2000, 'x'), 2, "field 1: the record has more than 1000 bytes"},
      {"a,\"" + std::string(2000, '\n'), 1,
       "field 2: the record has more than 1000 bytes here; is"},
      {"\xef\xbbx", 1, "half of a byte order mark"},
  };
  for (const auto& c : cases) {
    const Read read = read_all(c.text);
    ASSERT_TRUE(read.failure) << c.text.substr(0, 100);
    EXPECT_EQ(read.failure->code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(read.failure->message(), HasSubstr(c.says));
    EXPECT_EQ(read.line, c.line) << c.says;
  }
}

TEST(Csv, WhatIsWrittenIsRead) {
  Random random(11);
  for (int round = 0; round < 300; ++round) {
    Rows rows;
    std::string text;
    for (uint64_t n = 1 + random.below(5); n > 0; --n) {
      std::vector<std::string> row(2);
      for (std::string& field : row) {
        for (uint64_t length = 1 + random.below(20); length > 0; --length) {
          constexpr std::string_view kAlphabet = "a,\"\r\n\xff\0 ;";
          field += kAlphabet[random.below(kAlphabet.size())];
        }
      }
      text += csv_field(row[0]) + "," + csv_field(row[1]) + "\n";
      rows.push_back(std::move(row));
    }
    if (text.starts_with("\xef")) continue;
    const Read read = read_all(text);
    ASSERT_FALSE(read.failure) << read.failure->to_string();
    EXPECT_EQ(read.rows, rows);
  }
}

TEST(Csv, GoesOnWhereItWas) {
  const std::string text = "key,value\na,\"1\n2\"\nb,3\nc,4\n";
  std::istringstream in(text);
  CsvReader csv(in, 1000);
  std::vector<std::string> fields;
  ASSERT_TRUE(*csv.next(fields));
  ASSERT_TRUE(*csv.next(fields));
  EXPECT_EQ(csv.record_line(), 2u);
  const uint64_t bytes = csv.bytes_read(), lines = csv.lines_read();
  EXPECT_EQ(lines, 3u);
  std::istringstream again(text);
  CsvReader later(again, 1000);
  ASSERT_TRUE(*later.next(fields));
  again.clear();
  again.seekg(static_cast<std::streamoff>(bytes));
  later.continue_at(bytes, lines);
  ASSERT_TRUE(*later.next(fields));
  EXPECT_EQ(fields, (std::vector<std::string>{"b", "3"}));
  EXPECT_EQ(later.record_line(), 4u);
}

// ---- the objects in it --------------------------------------------------------------------------

std::string import_of(const std::string& text, const CsvColumns& columns = {}) {
  std::istringstream in(text);
  const auto source = make_record_source(FileFormat::kCsv, columns, in);
  if (Status begun = source->begin(); !begun.ok()) return begun.message();
  std::string all;
  Record record;
  for (;;) {
    auto more = source->next(record);
    if (!more) return "line " + std::to_string(source->line()) + ": " + more.error().message();
    if (!*more) return all;
    all += record.key + "=" + record.value + ";";
  }
}

TEST(CsvSource, ColumnsAreFoundByTheirNames) {
  EXPECT_EQ(import_of("key,value\na,1\nb,\n"), "a=1;b=;");
  EXPECT_EQ(import_of("value,other,key\n1,x,a\n"), "a=1;");
  EXPECT_EQ(import_of("id,e-mail\n7,a@b\n", {.key = "id", .value = "e-mail"}), "7=a@b;");
  EXPECT_EQ(import_of("key,value_b64\na,/w==\n", {.value = "value_b64"}), "a=\xff;");
  EXPECT_EQ(import_of("id\n7\n", {.key = "id", .value = "id"}), "7=7;");
}

TEST(CsvSource, ErrorsNameTheField) {
  EXPECT_THAT(import_of(""), HasSubstr("there is no header line"));
  EXPECT_EQ(import_of("id,age\n"),
            "there is no column 'key'; accepted with --key-column is one of: id, age");
  EXPECT_EQ(import_of("key,age\n"),
            "there is no column 'value'; accepted with --value-column is one of: key, age");
  EXPECT_THAT(import_of("key,value,key\n"), HasSubstr("the column 'key' is there 2 times"));
  EXPECT_EQ(import_of("key,value\na,1\nb\n"),
            "line 3: the record has 1 fields; accepted are 2, as the header has");
  EXPECT_EQ(import_of("key,value\n,1\n"),
            "line 2: field key: key: it has 0 bytes; accepted are 1 to 65535");
  EXPECT_THAT(import_of("key,value_b64\na,x\n", {.value = "value_b64"}),
              HasSubstr("line 2: field value_b64: base64 of 1 characters"));
}

TEST(CsvSource, BytesThatAreNotTextNeedBase64) {
  EXPECT_EQ(format_csv_record({}, "a,b", "\"").value(), "\"a,b\",\"\"\"\"");
  const auto bad = format_csv_record({}, "a", "\xff");
  ASSERT_FALSE(bad.has_value());
  EXPECT_EQ(bad.error().message(),
            "column 'value': '\\xff' is not UTF-8 text; accepted is any with --value-column "
            "value_b64, which is base64");
  EXPECT_EQ(format_csv_record({.value = "value_b64"}, "a", "\xff").value(), "a,/w==");
}

}  // namespace
}  // namespace ramcloud::cli
