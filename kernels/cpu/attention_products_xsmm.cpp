// Block products by libxsmm: code made at run time for one set of sizes.
//
// libxsmm counts columns first: its C = A B is our C^T = B^T A^T, so the operands change places.
#include <fmt/format.h>
#include <libxsmm.h>

#include "core/base/errors.hpp"
#include "kernels/cpu/attention_products.hpp"

namespace dcp::kernels::cpu {
namespace {

void call_fp32(const void* kernel, const void* a, const void* b, float* c) {
    reinterpret_cast<libxsmm_smmfunction>(const_cast<void*>(kernel))(
        static_cast<const float*>(b), static_cast<const float*>(a), c);
}

void call_bf16(const void* kernel, const void* a, const void* b, float* c) {
    reinterpret_cast<libxsmm_bsmmfunction>(const_cast<void*>(kernel))(
        static_cast<const libxsmm_bfloat16*>(b), static_cast<const libxsmm_bfloat16*>(a), c);
}

class XsmmProducts final : public BlockProducts {
public:
    XsmmProducts(DType dtype, const BlockShape& shape) : BlockProducts(shape) {
        libxsmm_init();
        build([dtype](const Sizes& sizes) { return make(dtype, sizes); });
    }

private:
    static BlockProduct make(DType dtype, const Sizes& sizes) {
        const float alpha = 1;
        const float beta = sizes.add ? 1 : 0;
        BlockProduct product;
        if (dtype == DType::kFloat32) {
            const int flags = LIBXSMM_GEMM_FLAG_NONE;
            product.call = call_fp32;
            product.kernel = reinterpret_cast<const void*>(
                libxsmm_smmdispatch(sizes.n, sizes.m, sizes.k, &sizes.row_b, &sizes.row_a,
                                    &sizes.row_c, &alpha, &beta, &flags, nullptr));
        } else {
            const int flags = LIBXSMM_GEMM_FLAG_VNNI_A;
            product.call = call_bf16;
            product.kernel = reinterpret_cast<const void*>(
                libxsmm_bsmmdispatch(sizes.n, sizes.m, sizes.k, &sizes.row_b, &sizes.row_a,
                                     &sizes.row_c, &alpha, &beta, &flags, nullptr));
        }
        if (product.kernel == nullptr) {
            throw UnsupportedError(fmt::format(
                "attention: no {} product of {} x {} x {} on this processor ({}); use dtype: fp32",
                name(dtype), sizes.m, sizes.n, sizes.k, libxsmm_get_target_arch()));
        }
        return product;
    }
};

}  // namespace

std::unique_ptr<BlockProducts> make_xsmm_products(DType dtype, const BlockShape& shape) {
    return std::make_unique<XsmmProducts>(dtype, shape);
}

}  // namespace dcp::kernels::cpu
