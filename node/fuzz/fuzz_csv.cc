// A CSV file of an import. Records must be the same after writing and reading again, and reading
// may continue at the beginning of any record.
#include <cstdlib>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cli/formats/csv.h"
#include "cli/formats/record_source.h"
#include "wire/message_header.h"

using namespace ramcloud;

namespace {

constexpr size_t kLimit = 5000;  // below the longest input, so that it is reached

using Row = std::vector<std::string>;
struct Begin {
  uint64_t bytes, lines;
};

/// The records up to the end or the first error; `begins` gets the start of each.
std::vector<Row> read_all(cli::CsvReader& csv, std::vector<Begin>* begins = nullptr) {
  std::vector<Row> rows;
  for (;;) {
    const Begin here{csv.bytes_read(), csv.lines_read()};
    Row row;
    const auto more = csv.next(row);
    if (!more && (more.error().ok() || more.error().message().empty())) std::abort();
    if (!more || !*more) return rows;
    if (row.empty()) std::abort();
    if (begins != nullptr) begins->push_back(here);
    rows.push_back(std::move(row));
  }
}

void read_as_objects(const std::string& text) {
  std::istringstream in(text);
  const auto source = cli::make_record_source(cli::FileFormat::kCsv, {}, in);
  if (!source->begin().ok()) return;
  cli::Record record;
  for (auto more = source->next(record); more && *more; more = source->next(record)) {
    if (record.key.empty() || record.key.size() > wire::kMaxKeyBytes ||
        record.value.size() > wire::kMaxValueBytes || source->position().bytes > text.size()) {
      std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::istringstream in(text);
  cli::CsvReader csv(in, kLimit);
  std::vector<Begin> begins;
  const auto rows = read_all(csv, &begins);
  if (csv.bytes_read() > size || begins.size() != rows.size()) std::abort();

  // Continue in the middle. (At the beginning a byte order mark would be skipped.)
  if (rows.size() > 1) {
    const size_t middle = 1 + rows.size() / 2 % (rows.size() - 1);
    std::istringstream again(text);
    cli::CsvReader later(again, kLimit);
    again.seekg(static_cast<std::streamoff>(begins[middle].bytes));
    later.continue_at(begins[middle].bytes, begins[middle].lines);
    if (read_all(later) !=
        std::vector<Row>(rows.begin() + static_cast<std::ptrdiff_t>(middle), rows.end())) {
      std::abort();
    }
  }

  std::string written = "first\n";
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) written += (i == 0 ? "" : ",") + cli::csv_field(row[i]);
    // An empty line is not a record; a line with an empty quoted field is.
    written += row.size() == 1 && row[0].empty() ? "\"\"\n" : "\n";
  }
  std::istringstream from_written(written);
  cli::CsvReader reader(from_written, 4 * kLimit);
  auto read_back = read_all(reader);
  if (read_back.empty()) std::abort();
  read_back.erase(read_back.begin());
  if (read_back != rows) std::abort();
  read_as_objects(text);
  return 0;
}
