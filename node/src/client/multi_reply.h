// The answers in the reply to a multi-operation (wire/data_messages.h, MultiReply).
#pragma once

#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "wire/data_messages.h"

namespace ramcloud {

/// The answer to one operation.
struct MultiAnswer {
  StatusCode status = StatusCode::kOk;
  uint64_t version = 0;
  ByteView value;  // in the reply's body
};

/// False: the body does not decode, or has no answers, or more answers than requests.
bool parse_multi_reply(ByteView body, size_t asked, wire::MultiReply& header,
                       std::vector<MultiAnswer>& answers);

}  // namespace ramcloud
