#pragma once

#include <cstdint>

namespace dcp::kernels {

// What a backward function does with the gradient it is given room for: micro-batches of one
// iteration add up.
enum class GradMode : std::uint8_t { kOverwrite, kAccumulate };

}  // namespace dcp::kernels
