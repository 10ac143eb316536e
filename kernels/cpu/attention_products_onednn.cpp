// Block products by oneDNN, for processors with AMX. A primitive is made once for each set of sizes
// and run by many threads, each on its own operands and on one thread.
#include <unordered_map>

#include <dnnl.hpp>
#include <fmt/format.h>

#include "core/base/errors.hpp"
#include "kernels/cpu/attention_products.hpp"

namespace dcp::kernels::cpu {
namespace {

using Type = dnnl::memory::data_type;

// One thread's view of a product: memory objects whose addresses are set anew for every call.
struct Arguments {
    dnnl::memory a;
    dnnl::memory b;
    dnnl::memory c;
    std::unordered_map<int, dnnl::memory> map;
};

}  // namespace

std::unique_ptr<BlockProducts> make_onednn_products(DType dtype, const BlockShape& shape) {
    (void)shape;
    throw UnsupportedError(fmt::format("attention: {}", name(dtype)));
}

}  // namespace dcp::kernels::cpu
