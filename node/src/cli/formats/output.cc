#include "cli/formats/output.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"

namespace ramcloud::cli {
namespace {

/// Columns of a text on a terminal: code points, not bytes.
size_t width_of(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; }));
}

void print_row(std::ostream& out, const std::vector<std::string>& row,
               const std::vector<size_t>& widths) {
  std::string line;
  for (size_t i = 0; i < row.size(); ++i) {
    line += row[i];
    if (i + 1 < row.size()) line.append(widths[i] - width_of(row[i]) + 2, ' ');
  }
  while (line.ends_with(' ')) line.pop_back();
  out << line << '\n';
}

}  // namespace

void print_table(std::ostream& out, const std::vector<std::string>& header,
                 const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (size_t i = 0; i < header.size(); ++i) {
    size_t width = width_of(header[i]);
    for (const auto& row : rows) width = std::max(width, width_of(row[i]));
    widths.push_back(width);
  }
  print_row(out, header, widths);
  for (const auto& row : rows) print_row(out, row, widths);
}

std::string printable(std::string_view bytes) {
  const bool text = is_valid_utf8(bytes);
  std::string out;
  out.reserve(bytes.size());
  for (const char c : bytes) {
    const auto byte = static_cast<uint8_t>(c);
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\\') {
      out += "\\\\";
    } else if (byte < 0x20 || byte == 0x7f || (!text && byte >= 0x80)) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out;
}

std::string with_thousands(uint64_t n) {
  std::string digits = std::to_string(n);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

Progress::Progress(std::ostream& out, bool enabled, std::string what, uint64_t total,
                   const Clock& clock)
    : out_(out),
      enabled_(enabled),
      what_(std::move(what)),
      total_(total),
      clock_(clock),
      started_(clock.now()) {}

Progress::~Progress() {
  finish();
}

void Progress::update(uint64_t done, uint64_t count) {
  if (!enabled_) return;
  const Time now = clock_.now();
  if (visible_ && now - drawn_ < 100ms) return;
  visible_ = true;
  drawn_ = now;
  const double seconds = std::max(std::chrono::duration<double>(now - started_).count(), 1e-3);
  std::string bar;
  if (total_ > 0) {
    constexpr size_t kCells = 30;
    const size_t full = std::min<uint64_t>(done, total_) * kCells / total_;
    bar = fmt::format("[{}{}] {:3}% ", std::string(full, '#'), std::string(kCells - full, '.'),
                      std::min<uint64_t>(done, total_) * 100 / total_);
  }
  out_ << fmt::format("\r\033[K{}{} {}, {}/s", bar, with_thousands(count), what_,
                      with_thousands(static_cast<uint64_t>(static_cast<double>(count) / seconds)))
       << std::flush;
}

void Progress::finish() {
  if (visible_) out_ << "\r\033[K" << std::flush;
  visible_ = false;
}

}  // namespace ramcloud::cli
