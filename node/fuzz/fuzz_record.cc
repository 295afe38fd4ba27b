// A line of an import. A parsed record must be the same after export writes it and import reads it.
#include <cstdlib>

#include "cli/formats/record.h"
#include "wire/message_header.h"

using namespace ramcloud;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto record = cli::parse_record({reinterpret_cast<const char*>(data), size});
  if (!record) {
    if (record.error().ok() || record.error().message().empty()) std::abort();
    return 0;
  }
  if (record->key.size() > wire::kMaxKeyBytes || record->value.size() > wire::kMaxValueBytes) {
    std::abort();
  }
  const auto again = cli::parse_record(cli::format_record(record->key, record->value));
  if (!again || again->key != record->key || again->value != record->value) std::abort();
  return 0;
}
