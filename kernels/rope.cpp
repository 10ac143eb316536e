#include "kernels/rope.hpp"

#include "kernels/check.hpp"
#include "kernels/cpu/row_operations.hpp"
#include "kernels/cuda/row_operations.hpp"

namespace dcp::kernels {

void rope_fill_table(Queue& queue, const RopeTable& table, double theta) {
    check(table.cos_PD.shape().num_dims() == 2, "rope_fill_table: cos_PD",
          "must have two dimensions");
    check_tensor("rope_fill_table: cos_PD", table.cos_PD, table.cos_PD.shape(), kFloat);
    check_tensor("rope_fill_table: sin_PD", table.sin_PD, table.cos_PD.shape(), kFloat);
    check(theta > 0, "rope_fill_table: theta", "must be positive");
    if (queue.device() == DeviceKind::kCuda) {
        cuda::rope_fill_table(queue, table, theta);
    } else {
        cpu::rope_fill_table(queue, table, theta);
    }
}

void rope(Queue& queue, const Rope& args) {
    check(args.x_THD.shape().num_dims() == 3, "rope: x_THD", "must have three dimensions");
    check(args.cos_PD.shape().num_dims() == 2, "rope: cos_PD", "must have two dimensions");
    const std::int64_t T = args.x_THD.dim(0);
    const std::int64_t D = args.x_THD.dim(2);
    const std::int64_t P = args.cos_PD.dim(0);
    check(D % 2 == 0, "rope: x_THD", "must have an even head dimension");
    check_tensor("rope: x_THD", args.x_THD, args.x_THD.shape(), kStored);
    check_tensor("rope: positions_T", args.positions_T, {T}, kInteger);
    check_tensor("rope: cos_PD", args.cos_PD, {P, D / 2}, kFloat);
    check_tensor("rope: sin_PD", args.sin_PD, {P, D / 2}, kFloat);
    check_contiguous("rope: positions_T", args.positions_T);
    const OpTimer timer(queue, "rope");
    if (queue.device() == DeviceKind::kCuda) {
        cuda::rope(queue, args);
    } else {
        cpu::rope(queue, args);
    }
}

}  // namespace dcp::kernels
