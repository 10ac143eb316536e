// Host side of the exchanges of heads: shapes and types.
#include "kernels/cuda/exchange_heads.hpp"

#include <numeric>
#include <string_view>

#include <fmt/format.h>

#include "core/base/cuda/stream.hpp"
#include "core/base/errors.hpp"
#include "kernels/cuda/exchange_heads_kernels.hpp"

namespace dcp::kernels::cuda {

namespace {

void require(bool holds, std::string_view what, std::string_view requirement) {
    if (!holds) {
        throw ShapeError(fmt::format("{} {}", what, requirement));
    }
}

void check_rows(std::string_view what, const ConstTensor& tensor, const Shape& shape) {
    if (tensor.shape() != shape) {
        throw ShapeError(fmt::format("{} has shape {}, not {}", what, tensor.shape().to_string(),
                                     shape.to_string()));
    }
    require(tensor.dtype() == DType::kFloat32 || tensor.dtype() == DType::kBFloat16, what,
            "must hold fp32 or bf16");
}

void check_heads(std::string_view op, const ExchangedHeads& heads) {
    require(heads.peers >= 1 && heads.all_heads >= 1 && heads.all_heads % heads.peers == 0, op,
            "needs peers that divide the query heads");
    require(heads.all_kv_heads >= 0 &&
                (heads.all_kv_heads == 0 || heads.all_heads % heads.all_kv_heads == 0),
            op, "needs key/value heads that divide the query heads");
    require(heads.head_dim >= 2 && heads.head_dim % 2 == 0, op, "needs an even head dimension");
}

HeadsProblem problem_of(std::string_view op,
                        const ExchangedHeads& heads,
                        const Rotation& rotation,
                        std::int64_t num_tokens) {
    HeadsProblem problem{.num_tokens = num_tokens,
                         .peers = heads.peers,
                         .all_heads = heads.all_heads,
                         .all_kv_heads = heads.all_kv_heads,
                         .heads = heads.heads(),
                         .kv_heads = heads.kv_heads(),
                         .half = heads.head_dim / 2};
    if (heads.all_kv_heads > 0) {
        problem.shared_by = heads.shared_by();
        problem.group = heads.all_heads / heads.all_kv_heads;
    }
    if (!rotation.cos_PD) {
        return problem;
    }
    const auto is_table = [&](const ConstTensor& table) {
        return table && table.dtype() == DType::kFloat32 && table.shape().num_dims() == 2 &&
               table.dim(1) == problem.half;
    };
    require(is_table(rotation.cos_PD) && is_table(rotation.sin_PD), op,
            "needs tables of fp32 with half a head dimension of columns");
    require(rotation.positions_T.shape() == Shape{num_tokens} &&
                rotation.positions_T.dtype() == DType::kInt32 &&
                rotation.positions_T.is_contiguous(),
            op, "needs one int32 position a token");
    problem.positions = rotation.positions_T.as<std::int32_t>();
    problem.cos_PD = rows_of(rotation.cos_PD);
    problem.sin_PD = rows_of(rotation.sin_PD);
    return problem;
}

}  // namespace

int ExchangedHeads::shared_by() const {
    return std::gcd(heads(), all_heads / all_kv_heads);
}

void pack_heads(Queue& queue, const PackHeads& args) {
    check_heads("pack_heads", args.heads);
    const std::int64_t T = args.rows_TN.dim(0);
    check_rows("pack_heads: rows_TN", args.rows_TN, {T, args.heads.all_features()});
    check_rows("pack_heads: blocks", args.blocks, {T * args.heads.peers, args.heads.features()});
    if (T > 0) {
        launch_pack_heads(dcp::cuda::stream_of(queue),
                          problem_of("pack_heads", args.heads, args.rotation, T),
                          rows_of(args.rows_TN), target_of(args.blocks));
    }
}

void unpack_heads(Queue& queue, const UnpackHeads& args) {
    check_heads("unpack_heads", args.heads);
    const std::int64_t T = args.rows_TN.dim(0);
    check_rows("unpack_heads: rows_TN", args.rows_TN, {T, args.heads.all_features()});
    check_rows("unpack_heads: blocks", args.blocks, {T * args.heads.peers, args.heads.features()});
    if (T > 0) {
        launch_unpack_heads(dcp::cuda::stream_of(queue),
                            problem_of("unpack_heads", args.heads, args.rotation, T),
                            rows_of(args.blocks), target_of(args.rows_TN));
    }
}

}  // namespace dcp::kernels::cuda
