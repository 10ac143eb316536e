#include "core/train/machine.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

#include <sched.h>

#include "core/base/arena.hpp"
#include "core/base/cuda/availability.hpp"
#include "core/base/errors.hpp"
#include "kernels/linear.hpp"

namespace dcp::train {

int available_processors(int ranks_on_node, int processors) {
    if (processors == 0) {
        cpu_set_t mask;
        CPU_ZERO(&mask);
        processors = sched_getaffinity(0, sizeof(mask), &mask) == 0 ? CPU_COUNT(&mask) : 1;
    }
    std::ifstream limit(
        "/sys/fs/cgroup/cpu.max");  // "QUOTA PERIOD" in microseconds, or "max PERIOD"
    double quota = 0;
    double period = 0;
    if (limit >> quota >> period && period > 0) {
        processors =
            std::min(processors, static_cast<int>(std::ceil(quota / period / ranks_on_node)));
    }
    return std::max(processors, 1);
}

namespace {

[[noreturn]] void refuse_cuda() {
    const cuda::Availability gpu = cuda::availability();
    std::string reason = ", but this build has no CUDA backend";
    if (gpu.is_usable) {
        reason = ", but no model runs on a GPU in this version";
    } else if (gpu.is_built) {
        reason = "; CUDA is " + gpu.description;
    }
    throw UnsupportedError("run.device is cuda" + reason + ": set run.device to cpu or auto");
}

}  // namespace

Machine resolve_machine(config::Device device,
                        config::ComputeType dtype,
                        std::int64_t threads,
                        std::int64_t budget_bytes,
                        int ranks_on_node,
                        int processors) {
    if (device == config::Device::kCuda) {
        refuse_cuda();
    }
    Machine machine;
    machine.threads =
        threads > 0 ? static_cast<int>(threads) : available_processors(ranks_on_node, processors);
    machine.budget_bytes =
        budget_bytes > 0 ? budget_bytes : default_host_budget_bytes() / ranks_on_node;
    const bool has_bf16 = kernels::supports_dtype(Queue::cpu(1), DType::kBFloat16);
    if (dtype == config::ComputeType::kBFloat16 && !has_bf16) {
        throw UnsupportedError(
            "run.dtype is bf16, but this processor has no bf16 products (AVX512_BF16 or AMX): set "
            "run.dtype to fp32 or auto");
    }
    machine.compute =
        dtype == config::ComputeType::kFloat32 || !has_bf16 ? DType::kFloat32 : DType::kBFloat16;
    return machine;
}

}  // namespace dcp::train
