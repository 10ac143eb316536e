// The CUDA kernels under the thread sanitizer, on shapes that are just large enough to use every
// barrier: several steps, a ragged end, both element types. A race ends the program with the
// sanitizer's report; [planted] shows that a missing barrier is one.
#include <vector>

#include "tests/emulated/emulation.hpp"
#include "tests/support/attention_cases.hpp"
#include <catch2/catch.hpp>

#include "kernels/cross_entropy.hpp"
#include "kernels/cuda/compat.cuh"
#include "kernels/cuda/matmul.hpp"
#include "kernels/embedding.hpp"
#include "kernels/layernorm.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/rmsnorm.hpp"

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

// The second span's queries see no key: its blocks have no step at all.
TEST_CASE("race: attention of grouped heads, whose keys nobody sees in part", "[race]") {
    Emulation emulation;
    check_attention(emulation.queue(), {.dtype = DType::kBFloat16,
                                        .H = 2,
                                        .G = 1,
                                        .D = 80,
                                        .spans = {{0, 33, 0, 70, -20}, {33, 32, 70, 20, -40}},
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

TEST_CASE("race: row-wise operations", "[race]") {
    Emulation emulation;
    Queue& queue = emulation.queue();
    constexpr std::int64_t T = 3;
    constexpr std::int64_t C = 300;  // two warps a row, a ragged end
    const auto fp32 = [](const Shape& shape, std::uint64_t seed) {
        return random_tensor(DType::kFloat32, shape, seed);
    };
    const TestTensor x = fp32({T, C}, 1);
    const TestTensor d_y = fp32({T, C}, 2);
    const TestTensor weight = fp32({C}, 3);
    TestTensor y = nan_tensor(DType::kFloat32, {T, C});
    TestTensor mean = nan_tensor(DType::kFloat32, {T});
    TestTensor inverse = nan_tensor(DType::kFloat32, {T});
    TestTensor d_weight = nan_tensor(DType::kFloat32, {C});
    TestTensor d_bias = nan_tensor(DType::kFloat32, {C});
    TestTensor workspace = byte_tensor(kernels::layernorm_backward_workspace_bytes(T, C));
    const auto mode = kernels::GradMode::kOverwrite;
    kernels::rmsnorm_forward(queue, {x, weight, y, inverse});
    kernels::rmsnorm_backward(queue, {d_y, x, weight, inverse, {}, y, d_weight, mode, workspace});
    kernels::layernorm_forward(queue, {x, weight, weight, y, mean, inverse});
    kernels::layernorm_backward(
        queue, {d_y, x, weight, mean, inverse, {}, y, d_weight, d_bias, mode, workspace});
    const TestTensor tokens = int_tensor({5, 1, 5});
    TestTensor table = nan_tensor(DType::kFloat32, {7, C});
    kernels::embedding_backward(queue, {tokens, d_y, table, mode});
    const TestTensor targets = int_tensor({2, -1, 299});
    const TestTensor weights = fp32({T}, 4);
    kernels::cross_entropy(queue, {x, targets, weights, mean, y});
    TestTensor sum = byte_tensor(8);
    TestTensor sums = byte_tensor(kernels::sum_workspace_bytes(T * C));
    kernels::sum_of_squares(queue, x.tensor().reshaped({T * C}), sum, sums);
    queue.synchronize();
    CHECK(y.guards_intact());
    CHECK(table.guards_intact());
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
