// Operations whose rows are independent: activations, addition, rotation, cross-entropy. Blocks of
// rows in parallel.
#include <cmath>

#include "kernels/cpu/parallel.hpp"
#include "kernels/cpu/row_operations.hpp"
#include "kernels/cpu/rows.hpp"

namespace dcp::kernels::cpu {

namespace {

// body(begin, count) over the rows of a tensor.
template <class Body>
void for_rows_of(const Queue& queue, const ConstTensor& tensor, const Body& body) {
    for_pieces(queue, tensor.dim(0), rows_per_piece(tensor.shape().row_elems()), body);
}

}  // namespace

void swiglu_forward(const Queue& queue, const SwiGluForward& args) {
    for_rows_of(queue, args.y_TF, [&](std::int64_t begin, std::int64_t count) {
        swiglu_rows_forward(args.gate_up_TF.rows(begin, count), args.y_TF.rows(begin, count));
    });
}

void swiglu_backward(const Queue& queue, const SwiGluBackward& args) {
    for_rows_of(queue, args.d_y_TF, [&](std::int64_t begin, std::int64_t count) {
        swiglu_rows_backward(args.d_y_TF.rows(begin, count), args.gate_up_TF.rows(begin, count),
                             args.d_gate_up_TF.rows(begin, count));
    });
}

void gelu_forward(const Queue& queue, const GeluForward& args) {
    for_rows_of(queue, args.y_TF, [&](std::int64_t begin, std::int64_t count) {
        gelu_rows_forward(args.x_TF.rows(begin, count), args.y_TF.rows(begin, count));
    });
}

void gelu_backward(const Queue& queue, const GeluBackward& args) {
    for_rows_of(queue, args.d_x_TF, [&](std::int64_t begin, std::int64_t count) {
        gelu_rows_backward(args.d_y_TF.rows(begin, count), args.x_TF.rows(begin, count),
                           args.d_x_TF.rows(begin, count));
    });
}

void add(const Queue& queue, const Add& args) {
    for_rows_of(queue, args.y_TC, [&](std::int64_t begin, std::int64_t count) {
        add_rows(args.a_TC.rows(begin, count), args.b_TC.rows(begin, count),
                 args.y_TC.rows(begin, count));
    });
}

void rope_fill_table(const Queue& queue, const RopeTable& table, double theta) {
    const std::int64_t half = table.cos_PD.dim(1);
    for_rows_of(queue, table.cos_PD, [&](std::int64_t begin, std::int64_t count) {
        for (std::int64_t position = begin; position < begin + count; ++position) {
            auto* cos_row = table.cos_PD.as<float>() + position * table.cos_PD.row_stride();
            auto* sin_row = table.sin_PD.as<float>() + position * table.sin_PD.row_stride();
            for (std::int64_t i = 0; i < half; ++i) {
                const double exponent = -static_cast<double>(i) / static_cast<double>(half);
                const double angle = static_cast<double>(position) * std::pow(theta, exponent);
                cos_row[i] = static_cast<float>(std::cos(angle));
                sin_row[i] = static_cast<float>(std::sin(angle));
            }
        }
    });
}

void rope(const Queue& queue, const Rope& args) {
    const std::int64_t H = args.x_THD.dim(1);
    const std::int64_t D = args.x_THD.dim(2);
    const auto* positions = args.positions_T.as<std::int32_t>();
    const Tensor x = args.x_THD.reshaped({args.x_THD.dim(0), H * D});
    for_rows_of(queue, x, [&](std::int64_t begin, std::int64_t count) {
        rope_rows(x.rows(begin, count), H, D, positions + begin, args.cos_PD, args.sin_PD,
                  args.inverse);
    });
}

void cross_entropy(const Queue& queue, const CrossEntropy& args) {
    const auto* targets = args.targets_T.as<std::int32_t>();
    const auto* weights = args.d_logits_TV ? args.weights_T.as<float>() : nullptr;
    auto* loss = args.loss_T.as<float>();
    for_rows_of(queue, args.logits_TV, [&](std::int64_t begin, std::int64_t count) {
        const Tensor d_logits = args.d_logits_TV ? args.d_logits_TV.rows(begin, count) : Tensor();
        cross_entropy_rows(args.logits_TV.rows(begin, count), targets + begin,
                           weights != nullptr ? weights + begin : nullptr, loss + begin, d_logits);
    });
}

}  // namespace dcp::kernels::cpu
