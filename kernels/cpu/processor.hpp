// Names of what is dispatched to at run time.
#pragma once

#include <string>

namespace dcp::kernels::cpu {

std::string describe_products();  // "oneDNN 2.6.3, avx512_core_bf16"
std::string describe_vectors();   // "Highway, AVX3"

}  // namespace dcp::kernels::cpu
