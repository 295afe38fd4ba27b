// The lines of an import file. The first byte is the length limit. The lines must be the same as
// from splitting the whole text, up to the first line that is too long.
#include <cstdlib>
#include <sstream>

#include "cli/formats/line_reader.h"
#include "fuzz/input.h"

using namespace ramcloud;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input in(data, size);
  const size_t longest = in.u8();
  std::string_view rest = in.rest();
  std::istringstream stream{std::string(rest)};
  cli::LineReader reader(stream, longest);
  for (uint64_t number = 1;; ++number) {
    std::string_view line;
    const auto more = reader.next(line);
    if (rest.empty()) {
      if (!more || *more || reader.bytes_read() != size - (size > 0)) std::abort();
      return 0;
    }
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view expected = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (expected.ends_with('\r')) expected.remove_suffix(1);
    if (expected.size() > longest) {
      if (more) std::abort();
      return 0;
    }
    if (!more || !*more || line != expected || reader.line_number() != number) std::abort();
  }
}
