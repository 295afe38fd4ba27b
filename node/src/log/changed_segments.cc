#include "log/changed_segments.h"

#include <bit>

namespace ramcloud::log {
namespace {

uint32_t words_for(uint32_t bits) {
  return (bits + 63) / 64;
}

}  // namespace

ChangedSegments::ChangedSegments(uint32_t capacity)
    : nonzero_words_(words_for(words_for(capacity))),
      bits_(std::make_unique<Atomic<uint64_t>[]>(words_for(capacity))),
      nonzero_(std::make_unique<Atomic<uint64_t>[]>(nonzero_words_)) {}

bool ChangedSegments::set(Words& words, uint32_t bit) {
  return words[bit / kBits].fetch_or(uint64_t{1} << bit % kBits, std::memory_order_seq_cst) == 0;
}

void ChangedSegments::mark(uint32_t segment) {
  if (set(bits_, segment)) set(nonzero_, segment / kBits);
  marks_.fetch_add(1, std::memory_order_release);
}

std::vector<uint32_t> ChangedSegments::take(uint32_t about) {
  std::vector<uint32_t> taken;
  for (uint32_t i = 0; i < nonzero_words_ && taken.size() < about; ++i) {
    if (nonzero_[i].load(std::memory_order_relaxed) == 0) continue;
    uint64_t some = nonzero_[i].exchange(0, std::memory_order_seq_cst);
    for (; some != 0; some &= some - 1) {
      const auto word = i * kBits + static_cast<uint32_t>(std::countr_zero(some));
      if (taken.size() >= about) {
        set(nonzero_, word);
        continue;
      }
      // All bits of a word are taken together: up to 63 more than asked for.
      for (uint64_t bits = bits_[word].exchange(0, std::memory_order_seq_cst); bits != 0;
           bits &= bits - 1) {
        taken.push_back(word * kBits + static_cast<uint32_t>(std::countr_zero(bits)));
      }
    }
  }
  return taken;
}

}  // namespace ramcloud::log
