// What a test chooses about the emulation, and what the emulation counts.
#pragma once

#include <cstddef>

namespace cuda_emu {

// The order in which the threads of a block get to run between barriers. The GPU promises none, so
// a kernel must be right under all of them. kUnfair lets one warp after the other, picked at
// random, run as far as it can: the best detector of missing barriers, hence the default.
enum class Schedule { kForward, kReverse, kUnfair, kWarpByWarp };

// How mma.sync adds up: the hardware does neither exactly (see docs/cuda-emulation.md), so kernels
// must meet their tolerances under both.
enum class MmaModel {
    kChainToNearest,  // products of k = 0..15 added one by one in fp32, rounded to nearest
    kSumToZero,       // one exact sum of 16 products and the accumulator, rounded towards zero
};

struct Counters {
    unsigned long long launches = 0;
    unsigned long long blocks = 0;
    unsigned long long mma = 0;
    unsigned long long ldmatrix = 0;
    unsigned long long bank_conflicts = 0;  // further phases that ldmatrix and stmatrix needed
    unsigned long long cp_async = 0;
    unsigned long long switches = 0;

    void add(const Counters& other);
};

struct Config {
    Schedule schedule = Schedule::kUnfair;
    unsigned seed = 1;
    int workers = 1;  // operating-system threads that run blocks side by side
    std::size_t stack_bytes = std::size_t{128} << 10;       // of one CUDA thread
    std::size_t max_shared_bytes = std::size_t{227} << 10;  // of a block, as on sm_90
    MmaModel mma_model = MmaModel::kChainToNearest;
    Counters total;  // of all finished blocks

    // The fake runtime.
    bool runs_at_once = false;  // streams are not lazy (runtime.hpp)
    int num_devices = 1;
    bool has_driver = true;
    std::size_t device_memory_bytes = std::size_t{1} << 30;
};
Config& config();

}  // namespace cuda_emu
