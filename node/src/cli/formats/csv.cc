#include "cli/formats/csv.h"

#include <fmt/core.h>

#include <utility>

namespace ramcloud::cli {

int CsvReader::peek() {
  if (at_ == buffer_.size()) {
    constexpr size_t kPiece = 256 * 1024;
    buffer_.resize(kPiece);
    in_.read(buffer_.data(), kPiece);
    buffer_.resize(static_cast<size_t>(in_.gcount()));
    at_ = 0;
    if (buffer_.empty()) return kEnd;
  }
  return static_cast<unsigned char>(buffer_[at_]);
}

int CsvReader::take() {
  const int c = peek();
  if (c == kEnd) return c;
  ++at_;
  ++bytes_;
  if (c == '\n') ++lines_;
  return c;
}

/// True if `c`, which was just read, ends a line (perhaps with the next character).
bool CsvReader::take_line_end(int c) {
  if (c == '\n' || c == kEnd) return true;
  if (c != '\r' || peek() != '\n') return false;
  take();
  return true;
}

Status CsvReader::refuse(const std::string& what) const {
  return {StatusCode::kInvalidArgument, fmt::format("field {}: {}", field_number_, what)};
}

/// Reads a quoted field after its first quote. True if another field follows, false at the end of
/// the record.
Result<bool> CsvReader::quoted_field(std::string& field) {
  for (;;) {
    const int c = take();
    if (c == kEnd) {
      return fail(refuse("its quotes are not closed; accepted is a quote at its end"));
    }
    if (c != '"') {
      field.push_back(static_cast<char>(c));
    } else if (peek() == '"') {
      field.push_back(static_cast<char>(take()));
    } else {
      const int after = take();
      if (after == ',') return true;
      if (take_line_end(after)) return false;
      return fail(refuse(
          "text follows its closing quote; accepted is a comma or the end of the line there, and "
          "\"\" for a quote inside"));
    }
    if (bytes_ - record_begin_ > max_) {
      return fail(
          refuse(fmt::format("the record has more than {} bytes here; is a quote missing?", max_)));
    }
  }
}

Result<bool> CsvReader::plain_field(int first, std::string& field) {
  for (int c = first;; c = take()) {
    if (c == ',') return true;
    if (take_line_end(c)) return false;
    if (c == '"' || c == '\r') {
      return fail(refuse(fmt::format("it has a {} inside; accepted is that in a field in quotes",
                                     c == '"' ? "quote" : "carriage return")));
    }
    field.push_back(static_cast<char>(c));
    if (bytes_ - record_begin_ > max_) {
      return fail(refuse(fmt::format("the record has more than {} bytes", max_)));
    }
  }
}

Result<bool> CsvReader::next(std::vector<std::string>& fields) {
  fields.clear();
  int c = take();
  if (bytes_ == 1 && c == 0xef && peek() == 0xbb) {  // a byte order mark
    take();
    if (take() != 0xbf) {
      record_line_ = field_number_ = 1;
      return fail(refuse("it begins with half of a byte order mark; accepted is UTF-8 text"));
    }
    c = take();
  }
  while (c != kEnd && take_line_end(c)) c = take();
  if (in_.bad()) return fail(StatusCode::kIoError, "the input cannot be read");
  if (c == kEnd) return false;
  record_line_ = lines_ + 1;
  record_begin_ = bytes_ - 1;
  field_number_ = 0;
  for (;; c = take()) {
    ++field_number_;
    std::string& field = fields.emplace_back();
    auto more = c == '"' ? quoted_field(field) : plain_field(c, field);
    if (!more) return fail(std::move(more.error()));
    if (!*more) break;
  }
  if (in_.bad()) return fail(StatusCode::kIoError, "the input cannot be read");
  return true;
}

void CsvReader::continue_at(uint64_t bytes, uint64_t lines) {
  buffer_.clear();
  at_ = 0;
  bytes_ = bytes;
  lines_ = lines;
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string field = "\"";
  for (const char c : text) {
    if (c == '"') field += '"';
    field += c;
  }
  field += '"';
  return field;
}

}  // namespace ramcloud::cli
