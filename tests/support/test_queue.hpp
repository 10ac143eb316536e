// The queue of tests that are compiled for both backends: the CPU, or (DCP_TEST_CUDA) a stream of
// the emulator that runs everything at once. Test cases tagged [cpu-only] are left out there.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/support/instruction_sets.hpp"

#include "core/base/queue.hpp"

#if defined(DCP_TEST_CUDA)
#include "tests/emulated/emulation.hpp"
#endif

namespace dcp::test {

class TestQueue {
public:
#if defined(DCP_TEST_CUDA)
    // Instead of threads: operating-system threads that run blocks side by side.
    explicit TestQueue(int threads) {
        cuda_emu::config().workers = threads;
        cuda_emu::config().runs_at_once = true;
    }
    operator Queue&() {
        return emulation_.queue();
    }  // NOLINT(google-explicit-constructor)

private:
    Emulation emulation_;
#else
    explicit TestQueue(int threads) : queue_(Queue::cpu(threads)) {}
    operator Queue&() {
        return queue_;
    }  // NOLINT(google-explicit-constructor)

private:
    Queue queue_;
#endif
};

// Head dimensions that the backend takes: any even one (any, without rotation), or multiples of 8.
#if defined(DCP_TEST_CUDA)
inline constexpr std::int64_t kSmallHeadDim = 8;
inline constexpr std::int64_t kOddHeadDim = 24;
#else
inline constexpr std::int64_t kSmallHeadDim = 6;
inline constexpr std::int64_t kOddHeadDim = 5;
#endif

// Those of Highway on a CPU; on a GPU there is one, and the CPU's does not matter.
inline std::vector<std::int64_t> instruction_sets_to_test() {
#if defined(DCP_TEST_CUDA)
    return {instruction_sets().front()};
#else
    return instruction_sets();
#endif
}

}  // namespace dcp::test
