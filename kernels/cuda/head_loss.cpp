// The end of a language model: blocks of rows, each from f(x) to all gradients before the next, so
// that logits exist for one block only. In fp32 the gradient of the logits takes their place.
#include <algorithm>

#include "kernels/cuda/linear.hpp"
#include "kernels/cuda/linear_operands.hpp"
#include "kernels/cuda/matmul.hpp"
#include "kernels/cuda/norm_blocks.hpp"
#include "kernels/cuda/row_operations.hpp"

namespace dcp::kernels::cuda {

namespace {

// As many rows as make logits of 128 MB, between 128 and 1024: the products stay large.
std::int64_t rows_of_block(std::int64_t T, std::int64_t V) {
    constexpr std::int64_t kLogits = std::int64_t{1} << 25;
    return std::min(T, std::clamp<std::int64_t>(kLogits / V, 128, 1024));
}

struct BlockParts {
    BlockParts(void* memory, DType dtype, std::int64_t rows, std::int64_t V, std::int64_t C)
        : BlockParts(WorkspaceParts(memory), dtype, rows, V, C) {}

    Tensor f;
    Tensor logits;
    Tensor d_logits;
    Tensor d_f;
    Tensor partials;
    std::size_t needed_bytes;

private:
    BlockParts(WorkspaceParts parts, DType dtype, std::int64_t rows, std::int64_t V, std::int64_t C)
        : f(parts.take(dtype, rows, C)),
          logits(parts.take(DType::kFloat32, rows, V)),
          d_logits(dtype == DType::kFloat32 ? logits : parts.take(dtype, rows, V)),
          d_f(parts.take(DType::kFloat32, rows, C)),
          partials(parts.take_bytes(2 * norm_partials_bytes(rows, C))),
          needed_bytes(parts.needed_bytes()) {}
};

LinearInput rows_of_input(const LinearInput& input, std::int64_t begin, std::int64_t count) {
    LinearInput rows = input;
    rows.x = input.x.rows(begin, count);
    if (input.mean_T) {
        rows.mean_T = input.mean_T.rows(begin, count);
    }
    if (input.inverse_rms_T) {
        rows.inverse_rms_T = input.inverse_rms_T.rows(begin, count);
    }
    return rows;
}

void gradients(Queue& queue,
               const HeadLoss& args,
               const LinearInput& input,
               const ConstTensor& f,
               const ConstTensor& d_logits,
               const BlockParts& parts,
               const Tensor& d_x) {
    if (args.d_w_VC) {
        matmul(queue, {.a = d_logits,
                       .b = f,
                       .c = args.d_w_VC,
                       .a_stored = Stored::kTransposed,
                       .b_stored = Stored::kPlain,
                       .mode = GradMode::kAccumulate});
    }
    const bool is_plain = input.kind == InputKind::kPlain;
    const Tensor d_f = is_plain ? d_x : parts.d_f.rows(0, d_x.dim(0));
    matmul(queue,
           {.a = d_logits, .b = weight_matrix(args.weight), .c = d_f, .b_stored = Stored::kPlain});
    input_backward(queue, input,
                   {.d_f = d_f,
                    .residual = {},
                    .d_x = d_x,
                    .d_norm_weight = args.d_norm_weight_C,
                    .d_norm_bias = args.d_norm_bias_C,
                    .partials = parts.partials});
}

}  // namespace

void head_loss(Queue& queue, const HeadLoss& args) {
    const std::int64_t T = args.input.x.dim(0);
    const std::int64_t V = args.weight.N;
    const std::int64_t block = rows_of_block(T, V);
    const BlockParts parts(args.workspace.data(), args.weight.dtype, block, V, args.weight.K);
    for (std::int64_t begin = 0; begin < T; begin += block) {
        const std::int64_t count = std::min(block, T - begin);
        const LinearInput input = rows_of_input(args.input, begin, count);
        const Tensor logits = parts.logits.rows(0, count);
        const ConstTensor f =
            input_forward(queue, input, Statistics::kWrite, parts.f.rows(0, count));
        matmul(queue, {.a = f, .b = weight_matrix(args.weight), .c = logits});
        const bool trains = static_cast<bool>(args.d_x_TC);
        const Tensor d_logits = trains ? parts.d_logits.rows(0, count) : Tensor();
        cross_entropy(queue,
                      {.logits_TV = logits,
                       .targets_T = args.targets_T.rows(begin, count),
                       .weights_T = trains ? args.weights_T.rows(begin, count) : ConstTensor(),
                       .loss_T = args.loss_T.rows(begin, count),
                       .d_logits_TV = d_logits});
        if (trains) {
            gradients(queue, args, input, f, d_logits, parts, args.d_x_TC.rows(begin, count));
        }
    }
}

std::size_t head_loss_workspace_bytes(DType dtype, std::int64_t T, std::int64_t V, std::int64_t C) {
    return BlockParts(nullptr, dtype, rows_of_block(T, V), V, C).needed_bytes;
}

}  // namespace dcp::kernels::cuda
