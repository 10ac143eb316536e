#include "kernels/sum_rows.hpp"

#include "kernels/check.hpp"
#include "kernels/cpu/exchange_rows.hpp"
#include "kernels/cuda/row_operations.hpp"

namespace dcp::kernels {

void sum_rows(Queue& queue, const SumRows& args) {
    const auto stored = {DType::kFloat32, DType::kBFloat16};
    check(args.to.shape().num_dims() == 2, "sum_rows: to", "must have two dimensions");
    check_tensor("sum_rows: to", args.to, args.to.shape(), stored);
    for (const ConstTensor& from : args.from) {
        check_tensor("sum_rows: from", from, args.to.shape(), stored);
    }
    const OpTimer timer(queue, "sum_rows");
    if (queue.device() == DeviceKind::kCuda) {
        cuda::sum_rows(queue, args);
    } else {
        cpu::sum_rows(queue, args);
    }
}

void copy_rows(Queue& queue, const ConstTensor& from, const Tensor& to) {
    sum_rows(queue, {.from = std::span(&from, 1), .to = to});
}

}  // namespace dcp::kernels
