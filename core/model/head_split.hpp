// Which heads a rank of a Ulysses row works on. Letters: H and G query and key/value heads of the
// model, h = H / u and g those of a rank, D their width.
//
// A rank's query heads are consecutive; the kernels want equal groups of them for each key/value
// head. Where u cuts the model's groups unevenly (H 12, G 6, u 4: heads 0 0 1 | 1 2 2 | ...) a
// key/value head therefore comes to a rank several times, once for every gcd(h, H / G) query heads.
#pragma once

#include <cstdint>
#include <numeric>

#include "core/base/tensor.hpp"
#include "core/model/sequence_attention.hpp"

namespace dcp::model {

struct HeadSplit {
    // u divides the query heads.
    HeadSplit(const AttentionShape& shape, int u)
        : heads(shape.heads / u),
          shared_by(std::gcd(heads, shape.heads / shape.kv_heads)),
          kv_heads(heads / shared_by),
          head_dim(shape.head_dim),
          all_heads(shape.heads),
          all_kv_heads(shape.kv_heads) {}

    std::int64_t heads;      // h: those from ulysses index * h on
    std::int64_t shared_by;  // query heads here that use the same of the key/value heads here
    std::int64_t kv_heads;   // g
    std::int64_t head_dim;
    std::int64_t all_heads;
    std::int64_t all_kv_heads;

    std::int64_t q_features() const { return heads * head_dim; }
    std::int64_t kv_features() const { return kv_heads * head_dim; }  // of keys, and of values
    std::int64_t features() const { return q_features() + 2 * kv_features(); }

    // The head of the model that key/value head `index` of a rank is. Every head of the model is on
    // one rank, unless this is replicated.
    std::int64_t kv_head(int ulysses_index, std::int64_t index) const {
        return (ulysses_index * heads + index * shared_by) / (all_heads / all_kv_heads);
    }
    bool is_replicated() const { return shared_by < all_heads / all_kv_heads; }
};

// Columns of an activation [T, (heads + 2 kv_heads) D], or of its key-value part alone.
template <class AnyTensor>
AnyTensor head_columns(const AnyTensor& rows,
                       std::int64_t begin,
                       std::int64_t heads,
                       std::int64_t head_dim) {
    return rows.columns(begin, heads * head_dim).reshaped({rows.dim(0), heads, head_dim});
}

}  // namespace dcp::model
