// The CUDA kernels under the thread sanitizer, on shapes that are just large enough to use every
// barrier: several steps, a ragged end, both element types. A race ends the program with the
// sanitizer's report; [planted] shows that a missing barrier is one.
#include <vector>

#include "tests/emulated/emulation.hpp"
#include "tests/support/attention_cases.hpp"
#include <catch2/catch.hpp>

#include "kernels/cuda/compat.cuh"
#include "kernels/cuda/matmul.hpp"

namespace dcp::test {
namespace {

TEST_CASE("race: attention", "[race]") {
    Emulation emulation;
    for (const DType dtype : {DType::kBFloat16, DType::kFloat32}) {
        check_attention(emulation.queue(), {.dtype = dtype,
                                            .H = 1,
                                            .G = 1,
                                            .D = 64,
                                            .spans = {{0, 20, 0, 130, 110}, {20, 130, 130, 20, 0}},
                                            .gradient_dtype = dtype});
    }
}

TEST_CASE("race: attention of grouped heads, whose keys nobody sees in part", "[race]") {
    Emulation emulation;
    check_attention(emulation.queue(), {.dtype = DType::kBFloat16,
                                        .H = 2,
                                        .G = 1,
                                        .D = 80,
                                        .spans = {{0, 33, 0, 70, -20}},
                                        .gradient_dtype = DType::kBFloat16});
}

TEST_CASE("race: matmul", "[race]") {
    using kernels::cuda::Stored;
    Emulation emulation;
    for (const DType dtype : {DType::kBFloat16, DType::kFloat32}) {
        const TestTensor a = random_tensor(dtype, {70, 72}, 1);
        const TestTensor b = random_tensor(dtype, {72, 40}, 2);
        TestTensor c = nan_tensor(DType::kFloat32, {70, 40});
        kernels::cuda::matmul(emulation.queue(),
                              {.a = a, .b = b, .c = c, .b_stored = Stored::kPlain});
        emulation.queue().synchronize();
        CHECK(c.guards_intact());
    }
}

// Thread 0 of the other warp reads what this warp has written.
__global__ void without_barrier(float* out) {
    DCP_SHARED(float, shared);
    shared[threadIdx.x] = 1.0F;
    out[threadIdx.x] = shared[63 - threadIdx.x];
}

TEST_CASE("race: a missing barrier is reported", "[.][planted]") {
    Emulation emulation;
    std::vector<float> out(64);
    DCP_LAUNCH(without_barrier, 1, 64, 64 * sizeof(float), cuda::stream_of(emulation.queue()),
               out.data());
    emulation.queue().synchronize();
}

}  // namespace
}  // namespace dcp::test
