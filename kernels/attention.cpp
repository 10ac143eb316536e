#include "kernels/attention.hpp"

#include <cmath>
#include <string>

#include <fmt/format.h>

#include "core/base/errors.hpp"
#include "kernels/check.hpp"
#include "kernels/cpu/attention.hpp"
#include "kernels/cpu/attention_units.hpp"
#include "kernels/cuda/attention.hpp"

namespace dcp::kernels {
namespace {

// Of the products: five in the backward pass for every two in the forward pass.
constexpr double kBackwardOverForward = 2.5;

void check_spans(std::string_view what,
                 std::span<const AttentionSpan> spans,
                 std::int64_t num_queries,
                 std::int64_t num_keys) {
    const auto is_inside = [](std::int64_t begin, std::int64_t count, std::int64_t rows) {
        return begin >= 0 && count >= 0 && begin <= rows && count <= rows - begin;
    };
    for (std::size_t i = 0; i < spans.size(); i++) {
        const AttentionSpan& span = spans[i];
        if (!is_inside(span.q_begin, span.q_count, num_queries) ||
            !is_inside(span.k_begin, span.k_count, num_keys)) {
            throw ShapeError(fmt::format(
                "{}: span {} covers queries [{}, +{}) of {} and keys [{}, +{}) of {}", what, i,
                span.q_begin, span.q_count, num_queries, span.k_begin, span.k_count, num_keys));
        }
    }
}

// Tensors that both passes have. Returns the sizes they agree on.
AttentionSizes check_inputs(const std::string& what,
                            const ConstTensor& q_THD,
                            const ConstTensor& k_TGD,
                            const ConstTensor& v_TGD,
                            std::span<const AttentionSpan> spans,
                            float scale) {
    check(q_THD.shape().num_dims() == 3 && k_TGD.shape().num_dims() == 3, what,
          "needs q and k of three dimensions");
    const AttentionSizes sizes{.dtype = q_THD.dtype(),
                               .num_queries = q_THD.dim(0),
                               .num_keys = k_TGD.dim(0),
                               .num_heads = q_THD.dim(1),
                               .num_kv_heads = k_TGD.dim(1),
                               .head_dim = q_THD.dim(2)};
    check(
        sizes.num_kv_heads > 0 && sizes.num_heads > 0 && sizes.num_heads % sizes.num_kv_heads == 0,
        what, "needs query heads in equal groups, one for each key/value head");
    check(sizes.head_dim > 0, what, "needs a head dimension");
    check(std::isfinite(scale) && scale > 0, what, "needs a scale that is finite and positive");
    check_tensor(what + ": q_THD", q_THD, q_THD.shape(), {DType::kFloat32, DType::kBFloat16});
    const Shape key_shape{sizes.num_keys, sizes.num_kv_heads, sizes.head_dim};
    check_tensor(what + ": k_TGD", k_TGD, key_shape, {sizes.dtype});
    check_tensor(what + ": v_TGD", v_TGD, key_shape, {sizes.dtype});
    check_spans(what, spans, sizes.num_queries, sizes.num_keys);
    return sizes;
}

}  // namespace

void attention_forward(Queue& queue, const AttentionForward& args) {
    const std::string what = "attention_forward";
    const AttentionSizes sizes =
        check_inputs(what, args.q_THD, args.k_TGD, args.v_TGD, args.spans, args.scale);
    check_tensor(what + ": o_THD", args.o_THD, args.q_THD.shape(), {sizes.dtype});
    check_tensor(what + ": lse_HT", args.lse_HT, {sizes.num_heads, sizes.num_queries},
                 {DType::kFloat32});
    check_workspace(what, args.workspace, attention_forward_workspace_bytes(queue, sizes));
    const OpTimer timer(queue, what,
                        attention_flops(args.spans, args.causal, sizes.num_heads, sizes.head_dim));
    if (queue.device() == DeviceKind::kCuda) {
        cuda::attention_forward(queue, args);
    } else {
        cpu::attention_forward(queue, args);
    }
}

void attention_backward(Queue& queue, const AttentionBackward& args) {
    const std::string what = "attention_backward";
    const AttentionSizes sizes =
        check_inputs(what, args.q_THD, args.k_TGD, args.v_TGD, args.spans, args.scale);
    const Shape& q_shape = args.q_THD.shape();
    const Shape& k_shape = args.k_TGD.shape();
    check_tensor(what + ": o_THD", args.o_THD, q_shape, {sizes.dtype});
    check_tensor(what + ": d_o_THD", args.d_o_THD, q_shape, {sizes.dtype});
    check_tensor(what + ": lse_HT", args.lse_HT, {sizes.num_heads, sizes.num_queries},
                 {DType::kFloat32});
    check_tensor(what + ": d_q_THD", args.d_q_THD, q_shape, {sizes.dtype, DType::kFloat32});
    check_tensor(what + ": d_k_TGD", args.d_k_TGD, k_shape, {sizes.dtype, DType::kFloat32});
    check_tensor(what + ": d_v_TGD", args.d_v_TGD, k_shape, {sizes.dtype, DType::kFloat32});
    check_workspace(what, args.workspace, attention_backward_workspace_bytes(queue, sizes));
    const OpTimer timer(queue, what,
                        kBackwardOverForward * attention_flops(args.spans, args.causal,
                                                               sizes.num_heads, sizes.head_dim));
    if (queue.device() == DeviceKind::kCuda) {
        cuda::attention_backward(queue, args);
    } else {
        cpu::attention_backward(queue, args);
    }
}

std::size_t attention_forward_workspace_bytes(const Queue& queue, const AttentionSizes& sizes) {
    return queue.device() == DeviceKind::kCuda
               ? cuda::attention_forward_workspace_bytes(sizes)
               : cpu::attention_forward_workspace_bytes(queue, sizes);
}

std::size_t attention_backward_workspace_bytes(const Queue& queue, const AttentionSizes& sizes) {
    return queue.device() == DeviceKind::kCuda
               ? cuda::attention_backward_workspace_bytes(sizes)
               : cpu::attention_backward_workspace_bytes(queue, sizes);
}

void attention_prepare(Queue& queue, const AttentionSizes& sizes) {
    if (queue.device() == DeviceKind::kCpu) {
        cpu::attention_prepare(sizes);  // kernels for a GPU are compiled with the program
    }
}

double attention_flops(std::span<const AttentionSpan> spans,
                       bool causal,
                       std::int64_t num_heads,
                       std::int64_t head_dim) {
    double pairs = 0;
    for (const AttentionSpan& span : spans) {
        pairs += static_cast<double>(cpu::visible_pairs(span, causal, 0, span.q_count));
    }
    return 4.0 * static_cast<double>(head_dim) * static_cast<double>(num_heads) * pairs;
}

}  // namespace dcp::kernels
