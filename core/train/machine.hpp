// What `auto` means here: the device, element type, threads and memory that a run will use, from
// the configuration and the machine.
#pragma once

#include <cstdint>

#include "core/base/dtype.hpp"
#include "core/config/config.hpp"

namespace dcp::train {

struct Machine {
    int threads = 1;
    DType compute = DType::kFloat32;
    std::int64_t budget_bytes = 0;
};

// The share of one of `ranks_on_node` ranks. UnsupportedError when something explicit cannot be
// had: a GPU (no model runs on one yet), bf16 on a processor without bf16 products.
Machine resolve_machine(config::Device device,
                        config::ComputeType dtype,
                        std::int64_t threads,
                        std::int64_t budget_bytes,
                        int ranks_on_node = 1,
                        int processors = 0);

// `processors` that a rank can count on (0: its affinity mask), less where the control group gives
// the node's ranks less time together.
int available_processors(int ranks_on_node = 1, int processors = 0);

}  // namespace dcp::train
