// Rotary position embedding, in place (kernels/rope.hpp).
//
//   y[i] = x[i] cos - x[i+D/2] sin,  y[i+D/2] = x[i+D/2] cos + x[i] sin;  `inverse` turns back
//
// Shapes: x [T, H, D] of either type, rows may be strided; positions [T]; cos, sin [P, D/2].
// Threads: one a vector of up to eight pairs of one head, both halves of it. In place is safe since
// a pair belongs to one thread.
// Memory: x read and written once; a row of the tables a token, mostly from cache.
// The tables are made on the host in double, as the CPU backend does, and copied.
#include <cmath>
#include <vector>

#include "core/base/cuda/check.hpp"
#include "core/base/cuda/stream.hpp"
#include "kernels/cuda/rotate.cuh"
#include "kernels/cuda/row_operations.hpp"

namespace dcp::kernels::cuda {

namespace {

constexpr int kRopeThreads = 128;

struct RopeArgs {
    Target x;
    RotationTable table;
    std::int64_t num_tokens = 0;
    int num_heads = 0;
    int half = 0;  // D / 2
};

__global__ void __launch_bounds__(kRopeThreads) rope_kernel(const RopeArgs args) {
    const int vectors = (args.half + kVector - 1) / kVector;  // of a head
    const std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * kRopeThreads + thread_index();
    const std::int64_t token = item / (static_cast<std::int64_t>(args.num_heads) * vectors);
    if (token >= args.num_tokens) {
        return;
    }
    const int head = static_cast<int>(item / vectors % args.num_heads);
    const int i = static_cast<int>(item % vectors) * kVector;
    const Rows x{args.x.data, args.x.stride, args.x.is_bf16};
    // A half of a head ends where `columns` says, counted from the beginning of the row.
    const int lower = head * 2 * args.half;
    const int upper = lower + args.half;
    float a[kVector];
    float b[kVector];
    load_vector(x, token, lower + i, upper, a);
    load_vector(x, token, upper + i, upper + args.half, b);
    rotate(args.table, token, i, args.half, a, b);
    store_vector(args.x, token, lower + i, upper, a);
    store_vector(args.x, token, upper + i, upper + args.half, b);
}

void copy_table(Queue& queue, const Tensor& to, const std::vector<float>& from) {
    const std::int64_t columns = to.dim(1);
    const std::int64_t rows = to.is_contiguous() ? 1 : to.dim(0);  // that are copied one by one
    const std::size_t elems = rows > 0 ? from.size() / static_cast<std::size_t>(rows) : 0;
    for (std::int64_t row = 0; row < rows && elems > 0; row++) {
        queue.stream()->copy_to_device(to.as<float>() + row * to.row_stride(),
                                       from.data() + row * columns, elems * sizeof(float));
    }
}

}  // namespace

void rope_fill_table(Queue& queue, const RopeTable& table, double theta) {
    const std::int64_t P = table.cos_PD.dim(0);
    const std::int64_t half = table.cos_PD.dim(1);
    std::vector<float> cosines(static_cast<std::size_t>(P * half));
    std::vector<float> sines(cosines.size());
    for (std::int64_t i = 0; i < half; i++) {
        const double frequency =
            std::pow(theta, -static_cast<double>(i) / static_cast<double>(half));
        for (std::int64_t p = 0; p < P; p++) {
            const double angle = static_cast<double>(p) * frequency;
            cosines[static_cast<std::size_t>(p * half + i)] = static_cast<float>(std::cos(angle));
            sines[static_cast<std::size_t>(p * half + i)] = static_cast<float>(std::sin(angle));
        }
    }
    copy_table(queue, table.cos_PD, cosines);
    copy_table(queue, table.sin_PD, sines);
}

void rope(Queue& queue, const Rope& args) {
    const std::int64_t T = args.x_THD.dim(0);
    const std::int64_t heads = args.x_THD.dim(1);
    const std::int64_t half = args.x_THD.dim(2) / 2;
    const std::int64_t items = T * heads * ((half + kVector - 1) / kVector);
    if (items == 0) {
        return;
    }
    const RopeArgs rope{.x = target_of(args.x_THD),
                        .table = {.positions = args.positions_T.as<std::int32_t>(),
                                  .cos_PD = rows_of(args.cos_PD),
                                  .sin_PD = rows_of(args.sin_PD),
                                  .sign = args.inverse ? -1.0F : 1.0F},
                        .num_tokens = T,
                        .num_heads = static_cast<int>(heads),
                        .half = static_cast<int>(half)};
    const cudaStream_t stream = dcp::cuda::stream_of(queue);
    DCP_LAUNCH(rope_kernel, static_cast<unsigned>((items + kRopeThreads - 1) / kRopeThreads),
               kRopeThreads, 0, stream, rope);
    dcp::cuda::check_launch("rope", stream);
}

}  // namespace dcp::kernels::cuda
