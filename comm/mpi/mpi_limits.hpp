// Sizes that decide how MpiCommunicator cuts its messages. Tests make them small; all ranks must
// have the same.
#pragma once

#include <cstdint>

namespace dcp::comm {

struct MpiLimits {
    std::int64_t piece_bytes = std::int64_t{256} << 20;           // of one message: below 2^31
    std::int64_t reduce_workspace_bytes = std::int64_t{4} << 20;  // of one round of a reduction
    std::int64_t direct_reduce_bytes = std::int64_t{32}
                                       << 10;  // all_reduce in one round up to here
};

}  // namespace dcp::comm
