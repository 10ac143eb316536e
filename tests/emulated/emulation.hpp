// A queue whose device is the emulator, and the emulator's settings put back at the end of a test.
#pragma once

#include <vector>

#include "tests/cuda_emu/config.hpp"

#include "core/base/cuda/stream.hpp"
#include "core/base/queue.hpp"

namespace dcp::test {

class Emulation {
public:
    explicit Emulation(cuda_emu::Schedule schedule = cuda_emu::Schedule::kUnfair,
                       cuda_emu::MmaModel mma = cuda_emu::MmaModel::kChainToNearest)
        : before_(cuda_emu::config()),
          stream_(cuda::Stream::create()),
          queue_(Queue::cuda(stream_)) {
        cuda_emu::config().schedule = schedule;
        cuda_emu::config().mma_model = mma;
        cuda_emu::config().total = {};
    }
    ~Emulation() { cuda_emu::config() = before_; }
    Emulation(const Emulation&) = delete;
    Emulation& operator=(const Emulation&) = delete;

    Queue& queue() { return queue_; }
    const cuda_emu::Counters& counters() const { return cuda_emu::config().total; }

private:
    cuda_emu::Config before_;
    cuda::Stream stream_;
    Queue queue_;
};

}  // namespace dcp::test
