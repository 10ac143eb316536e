// Checks that linear.hpp and head_loss.hpp have in common; ShapeError or UnsupportedError.
#pragma once

#include <string_view>

#include "kernels/linear.hpp"

namespace dcp::kernels {

void check_linear_weight(const Queue& queue, std::string_view op, const LinearWeight& weight);
void check_linear_input(
    std::string_view op, const LinearInput& input, DType compute, std::int64_t T, std::int64_t K);

}  // namespace dcp::kernels
