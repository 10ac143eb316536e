// Products of small matrices, the inner loops of attention: C[m,n] (+)= A[m,k] B[k,n], with C in
// fp32 and A, B in fp32 or bf16, each a contiguous block with the row lengths below.
//
// Everything is held transposed, [keys, queries]: a query is a lane of a vector, so its running
// maximum and sum need no sideways additions, and one block of probabilities serves three products
// without being turned round. Only a fixed set of block sizes exists, multiples of `step`: no code
// is made for a particular sequence length.
//
// There are two implementations. libxsmm makes code that reaches the limit of a processor with
// vector units (AVX2, AVX-512, AVX512_BF16) but does not know AMX; on a processor that has it,
// oneDNN multiplies bf16 several times faster, in larger blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/dtype.hpp"

namespace dcp::kernels::cpu {

// One product of fixed sizes.
struct BlockProduct {
    void (*call)(const void* kernel, const void* a, const void* b, float* c) = nullptr;
    const void* kernel = nullptr;

    void operator()(const void* a, const void* b, float* c) const { call(kernel, a, b, c); }
};

// The sizes of blocks, and how operands must be laid out.
struct BlockShape {
    int head_dim = 0;     // padded to a multiple of 16: Dp
    int query_block = 0;  // most queries of a block, and the row length of [.., queries] operands
    int key_block = 0;    // most keys, and the row length of [Dp, keys] operands
    int diagonal_queries = 0;  // queries of a part on the diagonal (for_each_part)
    int step = 0;              // blocks at the end of a span are padded to a multiple of it
    bool pairs = false;        // B in bf16: rows 2i and 2i+1 interleaved, [k/2][n][2]

    int pad(int count) const { return (count + step - 1) / step * step; }
};

enum class ProductKind : std::uint8_t { kXsmm, kOneDnn };
ProductKind best_product_kind(DType dtype);
BlockShape block_shape(ProductKind kind, DType dtype, std::int64_t head_dim);

inline constexpr int kLanes = 16;
inline constexpr int padded_head_dim(std::int64_t head_dim) {
    return static_cast<int>((head_dim + kLanes - 1) / kLanes * kLanes);
}

class BlockProducts {
public:
    virtual ~BlockProducts() = default;
    BlockProducts(const BlockProducts&) = delete;
    BlockProducts& operator=(const BlockProducts&) = delete;
    BlockProducts(BlockProducts&&) = delete;
    BlockProducts& operator=(BlockProducts&&) = delete;

    const BlockShape& shape() const { return shape_; }

    // [keys, queries] = [keys, Dp] [Dp, queries]: scores, and gradients of probabilities.
    const BlockProduct& scores(int keys, int queries) const {
        return scores_[index(keys, queries)];
    }
    // [Dp, queries] (+)= [Dp, keys] [keys, queries]: outputs, and gradients of queries.
    const BlockProduct& outputs(int keys, int queries, bool add) const {
        return (add ? outputs_add_ : outputs_)[index(keys, queries)];
    }
    // [keys, Dp] += [keys, queries] [queries, Dp]: gradients of keys and values.
    const BlockProduct& key_gradients(int keys, int queries) const {
        return key_gradients_[index(keys, queries)];
    }

protected:
    // Sizes of the operands of one product: C is [m, n] and so on, with these row lengths.
    struct Sizes {
        int m, n, k;
        int row_a, row_b, row_c;
        bool add;
    };
    explicit BlockProducts(const BlockShape& shape) : shape_(shape) {}
    // Makes all products by `make(sizes)`.
    template <class Make>
    void build(const Make& make);

private:
    std::size_t index(int keys, int queries) const {
        return static_cast<std::size_t>((keys / shape_.step - 1) *
                                            (shape_.query_block / shape_.step) +
                                        queries / shape_.step - 1);
    }

    BlockShape shape_;
    std::vector<BlockProduct> scores_;
    std::vector<BlockProduct> outputs_;
    std::vector<BlockProduct> outputs_add_;
    std::vector<BlockProduct> key_gradients_;
};

// Made on first use and kept for the life of the process. Any thread may call it. UnsupportedError
// when the processor cannot multiply this type.
const BlockProducts& block_products(ProductKind kind, DType dtype, std::int64_t head_dim);

// The two factories behind it.
std::unique_ptr<BlockProducts> make_xsmm_products(DType dtype, const BlockShape& shape);
std::unique_ptr<BlockProducts> make_onednn_products(DType dtype, const BlockShape& shape);

template <class Make>
void BlockProducts::build(const Make& make) {
    const int Dp = shape_.head_dim;
    const int row_q = shape_.query_block;
    const int row_k = shape_.key_block;
    for (int keys = shape_.step; keys <= shape_.key_block; keys += shape_.step) {
        for (int queries = shape_.step; queries <= shape_.query_block; queries += shape_.step) {
            scores_.push_back(make(Sizes{keys, queries, Dp, Dp, row_q, row_q, false}));
            outputs_.push_back(make(Sizes{Dp, queries, keys, row_k, row_q, row_q, false}));
            outputs_add_.push_back(make(Sizes{Dp, queries, keys, row_k, row_q, row_q, true}));
            key_gradients_.push_back(make(Sizes{keys, Dp, queries, row_q, Dp, Dp, true}));
        }
    }
}

}  // namespace dcp::kernels::cpu
