#include "kernels/cuda/matmul.hpp"

#include <string_view>

#include <fmt/format.h>

#include "core/base/cuda/stream.hpp"
#include "core/base/errors.hpp"
#include "kernels/check.hpp"
#include "kernels/cuda/matmul_kernels.hpp"

namespace dcp::kernels::cuda {

namespace {

constexpr std::int64_t kAccessBytes = 16;
constexpr std::int64_t kTileColumns = 64;
constexpr std::int64_t kMaxGridY = 65535;

bool is_multiple(const ConstTensor& tensor, std::size_t bytes) {
    return reinterpret_cast<std::uintptr_t>(tensor.data()) % bytes == 0;
}

void check_rows(std::string_view what, const ConstTensor& tensor) {
    const auto element_bytes = static_cast<std::int64_t>(size_bytes(tensor.dtype()));
    if (!is_multiple(tensor, kAccessBytes) ||
        (tensor.dim(0) > 1 && tensor.row_stride() * element_bytes % kAccessBytes != 0)) {
        throw UnsupportedError(fmt::format(
            "matmul: {}: bf16 rows {} elements apart do not all start at a multiple of {} bytes",
            what, tensor.row_stride(), kAccessBytes));
    }
}

}  // namespace

void matmul(Queue& queue, const Matmul& args) {
    check(args.a.shape().num_dims() == 2 && args.b.shape().num_dims() == 2 &&
              args.c.shape().num_dims() == 2,
          "matmul", "needs matrices");
    const bool a_is_plain = args.a_stored == Stored::kPlain;
    const bool b_is_plain = args.b_stored == Stored::kPlain;
    const std::int64_t M = args.c.dim(0);
    const std::int64_t N = args.c.dim(1);
    const std::int64_t K = args.a.dim(a_is_plain ? 1 : 0);
    const DType dtype = args.a.dtype();
    check_tensor("matmul: a", args.a, a_is_plain ? Shape{M, K} : Shape{K, M}, kStored);
    check_tensor("matmul: b", args.b, b_is_plain ? Shape{K, N} : Shape{N, K}, {dtype});
    check_tensor("matmul: c", args.c, {M, N}, {dtype, DType::kFloat32});
    if (!a_is_plain && !b_is_plain) {
        throw UnsupportedError("matmul: a and b both stored transposed");
    }
    if ((N + kTileColumns - 1) / kTileColumns > kMaxGridY) {
        throw UnsupportedError(fmt::format("matmul: {} columns are more than the {} it takes", N,
                                           kMaxGridY * kTileColumns));
    }
    if (M == 0 || N == 0) {
        return;
    }
    const MatmulProblem problem{.a = rows_of(args.a),
                                .b = rows_of(args.b),
                                .c = target_of(args.c, args.mode),
                                .num_rows = M,
                                .num_columns = N,
                                .depth = K,
                                .c_has_pairs = args.c.row_stride() % 2 == 0 &&
                                               is_multiple(args.c, 2 * size_bytes(args.c.dtype()))};
    const cudaStream_t stream = dcp::cuda::stream_of(queue);
    if (dtype == DType::kBFloat16) {
        check_rows("a", args.a);
        check_rows("b", args.b);
        launch_matmul_bf16(stream, problem, args.a_stored, args.b_stored);
    } else {
        launch_matmul_fp32(stream, problem, args.a_stored, args.b_stored);
    }
}

}  // namespace dcp::kernels::cuda
