#include "kernels/linear.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/base/arena.hpp"
#include "core/base/errors.hpp"
#include "kernels/check.hpp"
#include "kernels/cpu/linear.hpp"
#include "kernels/cuda/linear.hpp"
#include "kernels/linear_checks.hpp"

namespace dcp::kernels {

namespace {

// Type and sizes of a weight, before anything is made for them.
void check_product(
    const Queue& queue, std::string_view op, DType dtype, std::int64_t N, std::int64_t K) {
    check(N > 0 && K > 0, op, fmt::format("needs a weight with elements, not [{}, {}]", N, K));
    check(dtype == DType::kFloat32 || dtype == DType::kBFloat16, op,
          fmt::format("multiplies fp32 or bf16, not {}", name(dtype)));
    if (!supports_dtype(queue, dtype)) {
        throw UnsupportedError(fmt::format(
            "{}: this processor has no bf16 products (AVX512_BF16 or AMX); use fp32", op));
    }
}

void check_rope(std::string_view op, const RopeColumns& rope, std::int64_t T, std::int64_t N) {
    if (rope.num_heads == 0) {
        return;
    }
    check(rope.num_heads > 0 && rope.head_dim > 0 && rope.head_dim % 2 == 0 &&
              rope.num_heads * rope.head_dim <= N,
          op, "rotates heads of even width inside the columns of y");
    const std::int64_t P = rope.cos_PD.shape().num_dims() == 2 ? rope.cos_PD.dim(0) : 0;
    const Shape table{P, rope.head_dim / 2};
    check_tensor(fmt::format("{}: positions_T", op), rope.positions_T, {T}, {DType::kInt32});
    check_tensor(fmt::format("{}: cos_PD", op), rope.cos_PD, table, {DType::kFloat32});
    check_tensor(fmt::format("{}: sin_PD", op), rope.sin_PD, table, {DType::kFloat32});
}

std::int64_t rows_of(std::string_view what, const ConstTensor& tensor) {
    check(tensor.shape().num_dims() == 2, what, "must have two dimensions");
    return tensor.dim(0);
}

void check_linear_workspace(const Queue& queue,
                            std::string_view op,
                            const LinearWeight& weight,
                            std::int64_t T,
                            const Tensor& workspace) {
    check_workspace(op, workspace,
                    linear_workspace_bytes(queue, weight.dtype, T, weight.N, weight.K));
}

}  // namespace

void check_linear_weight(const Queue& queue, std::string_view op, const LinearWeight& weight) {
    check_product(queue, op, weight.dtype, weight.N, weight.K);
    const auto needed =
        static_cast<std::int64_t>(linear_prepared_bytes(queue, weight.dtype, weight.N, weight.K));
    check(weight.prepared && weight.prepared.num_bytes() >= needed, op,
          fmt::format("needs {} bytes of prepared weight", needed));
}

void check_linear_input(
    std::string_view op, const LinearInput& input, DType compute, std::int64_t T, std::int64_t K) {
    const auto name_of = [&](std::string_view tensor) { return fmt::format("{}: {}", op, tensor); };
    const std::int64_t width = input.kind == InputKind::kSwiGlu ? 2 * K : K;
    if (input.kind == InputKind::kPlain) {
        check_tensor(name_of("x"), input.x, {T, width}, {compute});
        return;
    }
    check_tensor(name_of("x"), input.x, {T, width}, {DType::kFloat32, DType::kBFloat16});
    if (input.kind != InputKind::kRmsNorm && input.kind != InputKind::kLayerNorm) {
        return;
    }
    check_tensor(name_of("norm_weight_K"), input.norm_weight_K, {K}, {DType::kFloat32});
    check_tensor(name_of("inverse_rms_T"), input.inverse_rms_T, {T}, {DType::kFloat32});
    if (input.kind == InputKind::kLayerNorm) {
        check_tensor(name_of("norm_bias_K"), input.norm_bias_K, {K}, {DType::kFloat32});
        check_tensor(name_of("mean_T"), input.mean_T, {T}, {DType::kFloat32});
    }
}

bool supports_dtype(const Queue& queue, DType dtype) {
    return queue.device() == DeviceKind::kCuda || cpu::supports_dtype(dtype);
}

std::size_t linear_prepared_bytes(const Queue& queue, DType dtype, std::int64_t N, std::int64_t K) {
    check_product(queue, "linear_prepared_bytes", dtype, N, K);
    return queue.device() == DeviceKind::kCuda ? cuda::linear_prepared_bytes(dtype, N, K)
                                               : cpu::linear_prepared_bytes(dtype, N, K);
}

std::size_t linear_workspace_bytes(
    const Queue& queue, DType dtype, std::int64_t T, std::int64_t N, std::int64_t K) {
    check_product(queue, "linear_workspace_bytes", dtype, N, K);
    return queue.device() == DeviceKind::kCuda ? cuda::linear_workspace_bytes(dtype, T, N, K)
                                               : cpu::linear_workspace_bytes(queue, dtype, T, N, K);
}

double linear_flops(std::int64_t T, std::int64_t N, std::int64_t K) {
    return 2.0 * static_cast<double>(T) * static_cast<double>(N) * static_cast<double>(K);
}

void linear_prepare(Queue& queue, ConstTensor master_NK, const LinearWeight& weight) {
    constexpr std::string_view kOp = "linear_prepare";
    check_linear_weight(queue, kOp, weight);
    check_tensor("linear_prepare: master_NK", master_NK, {weight.N, weight.K}, {DType::kFloat32});
    const OpTimer timer(queue, kOp);
    if (queue.device() == DeviceKind::kCuda) {
        cuda::linear_prepare(queue, master_NK, weight);
    } else {
        cpu::linear_prepare(queue, master_NK, weight);
    }
}

void linear_forward(Queue& queue, const LinearForward& args) {
    constexpr std::string_view kOp = "linear_forward";
    const LinearWeight& weight = args.weight;
    check_linear_weight(queue, kOp, weight);
    const std::int64_t T = rows_of("linear_forward: y_TN", args.y_TN);
    check_tensor("linear_forward: y_TN", args.y_TN, {T, weight.N}, {weight.dtype});
    check_optional("linear_forward: residual_TN", args.residual_TN, {T, weight.N},
                   {DType::kFloat32, DType::kBFloat16});
    check_linear_input(kOp, args.input, weight.dtype, T, weight.K);
    check_rope(kOp, args.rope, T, weight.N);
    check_linear_workspace(queue, kOp, weight, T, args.workspace);
    const OpTimer timer(queue, kOp, linear_flops(T, weight.N, weight.K));
    if (queue.device() == DeviceKind::kCuda) {
        cuda::linear_forward(queue, args);
    } else {
        cpu::linear_forward(queue, args);
    }
}

void linear_backward_input(Queue& queue, const LinearBackwardInput& args) {
    constexpr std::string_view kOp = "linear_backward_input";
    const LinearWeight& weight = args.weight;
    const LinearInput& input = args.input;
    check_linear_weight(queue, kOp, weight);
    const std::int64_t T = rows_of("linear_backward_input: d_y_TN", args.d_y_TN);
    check_tensor("linear_backward_input: d_y_TN", args.d_y_TN, {T, weight.N}, {weight.dtype});
    const bool is_plain = input.kind == InputKind::kPlain;
    const bool is_norm = input.kind == InputKind::kRmsNorm || input.kind == InputKind::kLayerNorm;
    if (!is_plain) {
        check_linear_input(kOp, input, weight.dtype, T, weight.K);
    }
    const std::int64_t width = input.kind == InputKind::kSwiGlu ? 2 * weight.K : weight.K;
    const DType stored = is_plain ? weight.dtype : input.x.dtype();
    check_tensor("linear_backward_input: d_x", args.d_x, {T, width}, {stored});
    check(!args.residual_TK || is_plain || is_norm, kOp,
          "takes a residual around a norm or a plain input only");
    check_optional("linear_backward_input: residual_TK", args.residual_TK, {T, weight.K},
                   {DType::kFloat32, DType::kBFloat16});
    if (is_norm) {
        check_tensor("linear_backward_input: d_norm_weight_K", args.d_norm_weight_K, {weight.K},
                     {DType::kFloat32});
    }
    if (input.kind == InputKind::kLayerNorm) {
        check_tensor("linear_backward_input: d_norm_bias_K", args.d_norm_bias_K, {weight.K},
                     {DType::kFloat32});
    }
    check_linear_workspace(queue, kOp, weight, T, args.workspace);
    const OpTimer timer(queue, kOp, linear_flops(T, weight.N, weight.K));
    if (queue.device() == DeviceKind::kCuda) {
        cuda::linear_backward_input(queue, args);
    } else {
        cpu::linear_backward_input(queue, args);
    }
}

void linear_backward_weight(Queue& queue, const LinearBackwardWeight& args) {
    constexpr std::string_view kOp = "linear_backward_weight";
    const LinearWeight& weight = args.weight;
    check_product(queue, kOp, weight.dtype, weight.N, weight.K);
    const std::int64_t T = rows_of("linear_backward_weight: d_y_TN", args.d_y_TN);
    check_tensor("linear_backward_weight: d_y_TN", args.d_y_TN, {T, weight.N}, {weight.dtype});
    check_linear_input(kOp, args.input, weight.dtype, T, weight.K);
    check_tensor("linear_backward_weight: d_w_NK", args.d_w_NK, {weight.N, weight.K},
                 {DType::kFloat32});
    check_contiguous("linear_backward_weight: d_w_NK", args.d_w_NK);
    check_linear_workspace(queue, kOp, weight, T, args.workspace);
    const OpTimer timer(queue, kOp, linear_flops(T, weight.N, weight.K));
    if (queue.device() == DeviceKind::kCuda) {
        cuda::linear_backward_weight(queue, args);
    } else {
        cpu::linear_backward_weight(queue, args);
    }
}

double measure_matmul_flops_per_second(Queue& queue, DType dtype) {
    if (queue.device() != DeviceKind::kCpu) {
        throw UnsupportedError("the rate of products is measured on processors only");
    }
    constexpr std::int64_t kSize = 1024;
    const std::int64_t T =
        std::max<std::int64_t>(kSize, std::int64_t{256} * queue.threads());  // two tiles each
    constexpr std::chrono::duration<double> kDuration(0.25);
    using Clock = std::chrono::steady_clock;

    const auto prepared =
        static_cast<std::int64_t>(linear_prepared_bytes(queue, dtype, kSize, kSize));
    const auto workspace =
        static_cast<std::int64_t>(linear_workspace_bytes(queue, dtype, T, kSize, kSize));
    Arena arena(prepared + workspace + 4 * kSize * kSize + 8 * T * kSize + (1 << 20));
    const auto take = [&](DType type, Shape shape) {
        return arena.allocate("measured product", MemoryCategory::kWorkspace, type, shape);
    };
    const Tensor master = take(DType::kFloat32, {kSize, kSize});
    std::fill_n(master.as<float>(), master.num_elems(), 1.0F);
    const LinearWeight weight{
        .prepared = take(DType::kUInt8, {prepared}), .dtype = dtype, .N = kSize, .K = kSize};
    cpu::linear_prepare(queue, master, weight);
    const Tensor x = take(dtype, {T, kSize});
    std::fill_n(static_cast<std::byte*>(x.data()), x.num_bytes(), std::byte{0});
    const LinearForward product{.input = {.x = x},
                                .weight = weight,
                                .y_TN = take(dtype, {T, kSize}),
                                .workspace = take(DType::kUInt8, {workspace})};
    double best_seconds = 1e9;
    for (const auto start = Clock::now(); Clock::now() - start < kDuration;) {
        const auto before = Clock::now();
        cpu::linear_forward(queue, product);
        const std::chrono::duration<double> spent = Clock::now() - before;
        best_seconds = std::min(best_seconds, spent.count());
    }
    return linear_flops(T, kSize, kSize) / best_seconds;
}

}  // namespace dcp::kernels
