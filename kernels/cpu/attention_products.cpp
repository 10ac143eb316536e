#include "kernels/cpu/attention_products.hpp"

#include <map>
#include <mutex>
#include <tuple>

#include <dnnl.h>

#include "kernels/cpu/attention.hpp"

namespace dcp::kernels::cpu {

ProductKind best_product_kind(DType dtype) {
    const bool has_amx = (static_cast<unsigned>(dnnl_get_effective_cpu_isa()) &
                          static_cast<unsigned>(dnnl_cpu_isa_avx512_core_amx)) ==
                         static_cast<unsigned>(dnnl_cpu_isa_avx512_core_amx);
    return dtype == DType::kBFloat16 && has_amx ? ProductKind::kOneDnn : ProductKind::kXsmm;
}

BlockShape block_shape(ProductKind kind, DType dtype, std::int64_t head_dim) {
    // libxsmm: everything stays in the first two levels of cache, and small blocks waste little on
    // the diagonal. oneDNN: a call costs more and AMX computes faster, so blocks are larger.
    const bool is_xsmm = kind == ProductKind::kXsmm;
    return BlockShape{.head_dim = padded_head_dim(head_dim),
                      .query_block = is_xsmm ? 64 : 128,
                      .key_block = is_xsmm ? 64 : 256,
                      .diagonal_queries = is_xsmm ? 16 : 64,
                      .step = is_xsmm ? kLanes : 64,
                      .pairs = is_xsmm && dtype == DType::kBFloat16};
}

const BlockProducts& block_products(ProductKind kind, DType dtype, std::int64_t head_dim) {
    using Key = std::tuple<ProductKind, DType, int>;
    static std::mutex mutex;
    static std::map<Key, std::unique_ptr<BlockProducts>> made;
    const std::lock_guard<std::mutex> lock(mutex);
    auto& products = made[Key{kind, dtype, padded_head_dim(head_dim)}];
    if (products == nullptr) {
        const BlockShape shape = block_shape(kind, dtype, head_dim);
        products = kind == ProductKind::kXsmm ? make_xsmm_products(dtype, shape)
                                              : make_onednn_products(dtype, shape);
    }
    return *products;
}

void attention_prepare(const AttentionSizes& sizes) {
    block_products(best_product_kind(sizes.dtype), sizes.dtype, sizes.head_dim);
}

}  // namespace dcp::kernels::cpu
