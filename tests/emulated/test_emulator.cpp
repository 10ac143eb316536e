// The emulator itself: it runs right kernels right, and each kind of wrong kernel is caught.
#include <string>
#include <vector>

#include "tests/emulated/emulation.hpp"
#include <catch2/catch.hpp>

#include "kernels/cuda/compat.cuh"

namespace dcp::test {
namespace {

using cuda_emu::Schedule;
using kernels::cuda::kAllLanes;

void run(Emulation& emulation) {
    emulation.queue().synchronize();
}

cudaStream_t stream(Emulation& emulation) {
    return cuda::stream_of(emulation.queue());
}

// Sum of a block's elements by a tree in shared memory; without the barriers it is wrong.
template <bool kHasBarriers>
__global__ void sum_of_block(const float* in, float* out) {
    DCP_SHARED(float, part);
    const unsigned i = threadIdx.x;
    part[i] = in[blockIdx.x * blockDim.x + i];
    __syncthreads();
    for (unsigned distance = blockDim.x / 2; distance > 0; distance /= 2) {
        if (i < distance) {
            part[i] += part[i + distance];
        }
        if (kHasBarriers) {
            __syncthreads();
        }
    }
    if (i == 0) {
        out[blockIdx.x] = part[0];
    }
}

template <bool kHasBarriers>
std::vector<float> sums(Emulation& emulation) {
    std::vector<float> in(256);
    for (std::size_t i = 0; i < in.size(); i++) {
        in[i] = static_cast<float>(i);
    }
    std::vector<float> out(2, 0);
    DCP_LAUNCH(sum_of_block<kHasBarriers>, 2, 128, 128 * sizeof(float), stream(emulation),
               in.data(), out.data());
    run(emulation);
    return out;
}

TEST_CASE("emulator: a right kernel is right under every schedule", "[emulated]") {
    for (const Schedule schedule :
         {Schedule::kForward, Schedule::kReverse, Schedule::kUnfair, Schedule::kWarpByWarp}) {
        Emulation emulation(schedule);
        CHECK(sums<true>(emulation) == std::vector<float>{8128, 24512});
        CHECK(emulation.counters().blocks == 2);
    }
}

TEST_CASE("emulator: the unfair schedule notices missing barriers", "[emulated]") {
    Emulation emulation;
    CHECK(sums<false>(emulation) != std::vector<float>{8128, 24512});
}

__global__ void shuffles(int* out) {
    const int lane = static_cast<int>(threadIdx.x);
    out[lane] = __shfl_xor_sync(kAllLanes, lane, 5);
    out[32 + lane] = __shfl_sync(kAllLanes, lane, 3, 4);
    out[64 + lane] = __shfl_down_sync(kAllLanes, lane, 2, 8);
    out[96 + lane] = static_cast<int>(__ballot_sync(kAllLanes, lane % 3 == 0 ? 1 : 0));
    out[128 + lane] = __syncthreads_count(lane < 7 ? 1 : 0);
}

TEST_CASE("emulator: shuffles and votes", "[emulated]") {
    Emulation emulation;
    std::vector<int> out(160, -1);
    DCP_LAUNCH(shuffles, 1, 32, 0, stream(emulation), out.data());
    run(emulation);
    for (int lane = 0; lane < 32; lane++) {
        const auto at = [&](int row) { return out[static_cast<std::size_t>(32 * row + lane)]; };
        CHECK(at(0) == (lane ^ 5));
        CHECK(at(1) == lane / 4 * 4 + 3);
        CHECK(at(2) == (lane % 8 < 6 ? lane + 2 : lane));
        CHECK(static_cast<unsigned>(at(3)) == 0x49249249U);
        CHECK(at(4) == 7);
    }
}

enum class Fault { kHalfAtBarrier, kTwoBarriers, kHalfWarp, kOtherInstruction, kForeignLane };

template <Fault kFault>
__global__ void faulty(float* out) {
    const bool is_lower_half = threadIdx.x < 16;
    if (kFault == Fault::kHalfAtBarrier) {
        if (is_lower_half) {
            __syncthreads();
        } else {
            out[0] = __shfl_sync(kAllLanes, out[0], 0);
        }
    } else if (kFault == Fault::kTwoBarriers) {
        if (is_lower_half) {
            __syncthreads();
        } else {
            __syncthreads();
        }
    } else if (kFault == Fault::kHalfWarp) {
        if (is_lower_half) {
            out[0] = __shfl_sync(kAllLanes, out[0], 0);
        }
    } else if (kFault == Fault::kOtherInstruction) {
        if (is_lower_half) {
            out[0] = __shfl_sync(kAllLanes, out[0], 0);
        } else {
            out[0] = __shfl_xor_sync(kAllLanes, out[0], 1);
        }
    } else if (is_lower_half) {
        out[0] = __shfl_sync(0xffffU, out[0], 20);
    }
}

template <Fault kFault>
std::string message() {
    std::string said;
    for (const Schedule schedule : {Schedule::kForward, Schedule::kUnfair}) {
        Emulation emulation(schedule);
        std::vector<float> out(1, 0);
        DCP_LAUNCH(faulty<kFault>, 1, 32, 0, stream(emulation), out.data());
        try {
            run(emulation);
            return "nothing";
        } catch (const std::runtime_error& error) {
            said = error.what();
        }
    }
    return said;
}

TEST_CASE("emulator: threads that miss each other are reported with their lines", "[emulated]") {
    CHECK_THAT(message<Fault::kHalfAtBarrier>(), Catch::Contains("deadlock") &&
                                                     Catch::Contains("__shfl_sync, line") &&
                                                     Catch::Contains("__syncthreads, line"));
    CHECK_THAT(message<Fault::kTwoBarriers>(), Catch::Contains("while others wait at line"));
    CHECK_THAT(message<Fault::kHalfWarp>(), Catch::Contains("deadlock"));
    CHECK_THAT(message<Fault::kOtherInstruction>(), Catch::Contains("is in __shfl"));
    CHECK_THAT(message<Fault::kForeignLane>(), Catch::Contains("outside the mask"));
}

__global__ void nothing() {}

TEST_CASE("emulator: launches beyond the hardware's limits are refused", "[emulated]") {
    Emulation emulation;
    const auto error_of = [&](dim3 grid, dim3 threads, std::size_t shared_bytes) {
        DCP_LAUNCH(nothing, grid, threads, shared_bytes, stream(emulation));
        run(emulation);
        return cudaGetLastError();
    };
    CHECK(error_of(1, 1024, 0) == cudaSuccess);
    CHECK(error_of(1, 1025, 0) == cudaErrorInvalidConfiguration);
    CHECK(error_of(0, 32, 0) == cudaErrorInvalidConfiguration);
    CHECK(error_of(dim3(1, 65536), 32, 0) == cudaErrorInvalidConfiguration);
    CHECK(error_of(1, 32, std::size_t{48} << 10) == cudaSuccess);
    CHECK(error_of(1, 32, (std::size_t{48} << 10) + 1) == cudaErrorInvalidConfiguration);
    CHECK(cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10) ==
          cudaSuccess);
    CHECK(error_of(1, 32, std::size_t{100} << 10) == cudaSuccess);
    CHECK(cudaFuncSetAttribute(nothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 228 << 10) ==
          cudaErrorInvalidValue);
}

}  // namespace
}  // namespace dcp::test
