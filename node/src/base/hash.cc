#include "base/hash.h"

#include <xxhash.h>

namespace ramcloud {

uint64_t key_hash(uint64_t table_id, ByteView key) {
  return XXH3_64bits_withSeed(key.data(), key.size(), table_id);
}

void HashMixer::add(uint64_t value) {
  state_ = XXH3_64bits_withSeed(&value, sizeof value, state_);
}
void HashMixer::add(ByteView bytes) {
  state_ = XXH3_64bits_withSeed(bytes.data(), bytes.size(), state_);
}

}  // namespace ramcloud
