#include "kernels/cpu/linear_products.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

#include <omp.h>

#include "core/base/errors.hpp"
#include "kernels/cpu/linear_transpose.hpp"

namespace dcp::kernels::cpu {

namespace {

using dnnl::memory;

const dnnl::stream& thread_stream() {
    thread_local const dnnl::stream stream(cpu_engine());
    return stream;
}

memory::data_type type_of(DType dtype) {
    return dtype == DType::kBFloat16 ? memory::data_type::bf16 : memory::data_type::f32;
}

memory::desc row_major(std::int64_t rows, std::int64_t columns, DType dtype) {
    return {{rows, columns}, type_of(dtype), memory::dims{columns, 1}};
}

// oneDNN takes pointers to non-const for what it only reads.
memory view(const memory::desc& desc, const void* data) {
    return {desc, cpu_engine(), const_cast<void*>(data)};
}

memory scratchpad_view(void* scratchpad, std::size_t bytes) {
    const memory::desc desc({static_cast<std::int64_t>(bytes)}, memory::data_type::u8,
                            memory::dims{1});
    return {desc, cpu_engine(), scratchpad};
}

// Products by type and sizes, made when first asked for. References stay valid.
template <class Product>
class ProductCache {
public:
    const Product& get(DType compute, std::int64_t first, std::int64_t second) {
        const std::lock_guard lock(mutex_);
        return products_.try_emplace(Key{compute, first, second}, compute, first, second)
            .first->second;
    }

private:
    using Key = std::tuple<DType, std::int64_t, std::int64_t>;
    std::mutex mutex_;
    std::map<Key, Product> products_;
};

}  // namespace

TileProduct::TileProduct(DType compute, std::int64_t inner, std::int64_t outer)
    : compute_(compute), inner_(inner), outer_(outer) {
    const OneThread one_thread;
    const memory::desc any({inner, outer}, type_of(compute), memory::format_tag::any);
    packed_ = describe(kMaxRows, DType::kFloat32, any).weights_desc();
    for (std::size_t size_idx = 0; size_idx < kTileRows.size(); ++size_idx) {
        add(size_idx, DType::kFloat32);
        if (compute != DType::kFloat32) {
            add(size_idx, compute);
        }
    }
}

dnnl::matmul::primitive_desc TileProduct::describe(std::int64_t rows,
                                                   DType output,
                                                   const memory::desc& packed) const {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::matmul::desc product(row_major(rows, inner_, compute_), packed,
                                     row_major(rows, outer_, output));
    return {product, attributes, cpu_engine()};
}

void TileProduct::add(std::size_t size_idx, DType output) {
    OfRows& primitives = output == DType::kFloat32 ? to_fp32_ : to_compute_;
    try {
        const auto description = describe(kTileRows[size_idx], output, packed_);
        primitives[size_idx] = dnnl::matmul(description);
        scratchpad_bytes_ = std::max(scratchpad_bytes_, description.scratchpad_desc().get_size());
    } catch (const dnnl::error& error) {
        // The layout suits the largest tile; another size may do without.
        const bool is_largest = size_idx == 0 && output == DType::kFloat32;
        if (is_largest || error.status != dnnl_unimplemented) {
            throw;
        }
    }
}

const TileProduct::OfRows& TileProduct::of(DType output) const {
    return output == DType::kFloat32 ? to_fp32_ : to_compute_;
}

bool TileProduct::stores(DType output) const {
    return static_cast<bool>(of(output)[0]);
}

// The largest tile that the rows fill, or the smallest that holds them all.
std::size_t TileProduct::next_tile(std::int64_t rows, DType output) const {
    std::size_t smallest = 0;
    for (std::size_t size_idx = 0; size_idx < kTileRows.size(); ++size_idx) {
        if (of(output)[size_idx]) {
            smallest = size_idx;
            if (kTileRows[size_idx] <= rows) {
                return size_idx;
            }
        }
    }
    return smallest;
}

std::int64_t TileProduct::touched_rows(std::int64_t rows, DType output) const {
    std::int64_t touched = 0;
    while (touched < rows) {
        touched += kTileRows[next_tile(rows - touched, output)];
    }
    return touched;
}

void TileProduct::pack(ConstTensor master, bool transposed, int threads, void* packed) const {
    const std::int64_t stride = master.row_stride();
    const memory::desc plain({inner_, outer_}, memory::data_type::f32,
                             transposed ? memory::dims{1, stride} : memory::dims{stride, 1});
    const int before = omp_get_max_threads();
    omp_set_num_threads(threads);  // a copy: no result depends on how it is split
    memory from = view(plain, master.data());
    memory to = view(packed_, packed);
    dnnl::reorder(from, to).execute(thread_stream(), from, to);
    omp_set_num_threads(before);
}

void TileProduct::run(std::int64_t rows,
                      const void* x,
                      const void* packed,
                      void* y,
                      DType output,
                      void* scratchpad) const {
    const memory weights = view(packed_, packed);
    const memory room = scratchpad_view(scratchpad, scratchpad_bytes_);
    const auto x_row_bytes = inner_ * static_cast<std::int64_t>(size_bytes(compute_));
    const auto y_row_bytes = outer_ * static_cast<std::int64_t>(size_bytes(output));
    for (std::int64_t row = 0; row < rows;) {
        const std::size_t size_idx = next_tile(rows - row, output);
        const std::int64_t tile_rows = kTileRows[size_idx];
        const memory source = view(row_major(tile_rows, inner_, compute_),
                                   static_cast<const std::byte*>(x) + row * x_row_bytes);
        const memory result = view(row_major(tile_rows, outer_, output),
                                   static_cast<std::byte*>(y) + row * y_row_bytes);
        of(output)[size_idx].execute(thread_stream(), {{DNNL_ARG_SRC, source},
                                                       {DNNL_ARG_WEIGHTS, weights},
                                                       {DNNL_ARG_DST, result},
                                                       {DNNL_ARG_SCRATCHPAD, room}});
        row += tile_rows;
    }
}

const TileProduct& tile_product(DType compute, std::int64_t inner, std::int64_t outer) {
    static ProductCache<TileProduct> cache;
    return cache.get(compute, inner, outer);
}

namespace {

dnnl::matmul make_transposed_product(DType compute) {
    const OneThread one_thread;
    constexpr auto kAnySize = DNNL_RUNTIME_DIM_VAL;
    const memory::dims any_sizes{kAnySize, kAnySize};
    const memory::desc a_transposed(any_sizes, type_of(compute), memory::dims{1, kAnySize});
    const memory::desc b(any_sizes, type_of(compute), memory::dims{kAnySize, 1});
    const memory::desc c(any_sizes, memory::data_type::f32, memory::dims{kAnySize, 1});
    dnnl::post_ops add_to_c;
    add_to_c.append_sum();
    dnnl::primitive_attr attributes;
    attributes.set_post_ops(add_to_c);
    // oneDNN's own scratch memory belongs to the thread that makes a primitive, and others run this
    // one. A general product that adds in its own result needs none; where one did, it would be
    // wrong on other threads, so that is an error at the start.
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::matmul::primitive_desc description({a_transposed, b, c}, attributes, cpu_engine());
    if (description.scratchpad_desc().get_size() > 0) {
        throw UnsupportedError("oneDNN's general matrix product wants scratch memory here");
    }
    return dnnl::matmul(description);
}

const dnnl::matmul& transposed_product(DType compute) {
    static const dnnl::matmul of_fp32 = make_transposed_product(DType::kFloat32);
    if (compute == DType::kFloat32) {
        return of_fp32;
    }
    static const dnnl::matmul of_bf16 = make_transposed_product(DType::kBFloat16);
    return of_bf16;
}

// The same for any sizes and strides, without transposing first.
void add_transposed_product(ConstTensor a_TM, ConstTensor b_TN, Tensor c_MN) {
    const DType compute = a_TM.dtype();
    const std::int64_t T = a_TM.dim(0);
    const std::int64_t M = a_TM.dim(1);
    const std::int64_t N = b_TN.dim(1);
    const memory a =
        view({{M, T}, type_of(compute), memory::dims{1, a_TM.row_stride()}}, a_TM.data());
    const memory b =
        view({{T, N}, type_of(compute), memory::dims{b_TN.row_stride(), 1}}, b_TN.data());
    const memory c =
        view({{M, N}, memory::data_type::f32, memory::dims{c_MN.row_stride(), 1}}, c_MN.data());
    transposed_product(compute).execute(
        thread_stream(), {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
}

// An even number of pieces of equal size, so that two threads end together.
Pieces even_pieces(std::int64_t total, std::int64_t max_piece) {
    constexpr std::int64_t kMultiple = 16;
    const std::int64_t count = 2 * ((total + 2 * max_piece - 1) / (2 * max_piece));
    const std::int64_t piece = (total + count - 1) / count;
    return {total, (piece + kMultiple - 1) / kMultiple * kMultiple};
}

bool has_amx() {
    const auto best = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
    const auto needed = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_amx);
    return (best & needed) == needed;
}

}  // namespace

// Tiles as large as the products of a layer allow: the general product copies both operands for
// every tile. Measured on Zen 5, 1 thread, 2048 rows, bf16, K = 2048, N = 768: 442 GFLOP/s with
// tiles of 192 x 2048, 493 with 768 x 2048, 475 with 768 x 1024.
WeightProduct::WeightProduct(DType compute, std::int64_t N, std::int64_t K)
    : compute_(compute),
      K_(K),
      transposes_(compute == DType::kBFloat16 && has_amx()),
      rows_(even_pieces(N, transposes_ ? 256 : 512)),
      columns_{K, transposes_ || K < 2048 ? K : 1024} {
    if (transposes_) {
        const OneThread one_thread;
        make(rows_.size(0), of_whole_tile_);
        make(rows_.size(rows_.count() - 1), of_last_tile_);
    }
}

void WeightProduct::make(std::int64_t rows, OfSteps& primitives) {
    dnnl::post_ops add_to_d_w;
    add_to_d_w.append_sum();
    dnnl::primitive_attr attributes;
    attributes.set_post_ops(add_to_d_w);
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    for (std::size_t step_idx = 0; step_idx < kSteps.size(); ++step_idx) {
        const dnnl::matmul::desc product(row_major(rows, kSteps[step_idx], compute_),
                                         row_major(kSteps[step_idx], K_, compute_),
                                         row_major(rows, K_, DType::kFloat32));
        const dnnl::matmul::primitive_desc description(product, attributes, cpu_engine());
        primitives[step_idx] = dnnl::matmul(description);
        scratchpad_bytes_ = std::max(scratchpad_bytes_, description.scratchpad_desc().get_size());
    }
}

std::int64_t WeightProduct::transposed_bytes() const {
    const auto elem_bytes = static_cast<std::int64_t>(size_bytes(compute_));
    return transposes_ ? rows_.piece * kSteps[0] * elem_bytes : 0;
}

std::size_t WeightProduct::scratch_bytes() const {
    return static_cast<std::size_t>(transposed_bytes()) + scratchpad_bytes_;
}

// As many rows of d_y as the steps allow; returns how many.
std::int64_t WeightProduct::add_transposed(
    const OfSteps& primitives, ConstTensor d_y, ConstTensor f_TK, Tensor d_w, void* scratch) const {
    const std::int64_t rows = d_w.dim(0);
    const memory result = view(row_major(rows, K_, DType::kFloat32), d_w.data());
    const memory room =
        scratchpad_view(static_cast<std::byte*>(scratch) + transposed_bytes(), scratchpad_bytes_);
    std::int64_t t = 0;
    for (std::size_t step_idx = 0; step_idx < kSteps.size(); ++step_idx) {
        const std::int64_t step = kSteps[step_idx];
        for (; t + step <= d_y.dim(0); t += step) {
            const Tensor transposed(scratch, compute_, Shape{rows, step});
            transpose_tile(d_y.rows(t, step), transposed);
            const memory a = view(row_major(rows, step, compute_), transposed.data());
            const memory b = view(row_major(step, K_, compute_), f_TK.rows(t, step).data());
            primitives[step_idx].execute(thread_stream(), {{DNNL_ARG_SRC, a},
                                                           {DNNL_ARG_WEIGHTS, b},
                                                           {DNNL_ARG_DST, result},
                                                           {DNNL_ARG_SCRATCHPAD, room}});
        }
    }
    return t;
}

void WeightProduct::add(
    std::int64_t tile, ConstTensor d_y_TN, ConstTensor f_TK, Tensor d_w_NK, void* scratch) const {
    const std::int64_t row_piece = tile % rows_.count();
    const std::int64_t column_piece = tile / rows_.count();
    const std::int64_t rows = rows_.size(row_piece);
    const std::int64_t columns = columns_.size(column_piece);
    const std::int64_t first_column = columns_.begin(column_piece);
    const ConstTensor d_y = d_y_TN.columns(rows_.begin(row_piece), rows);
    const ConstTensor f = f_TK.columns(first_column, columns);
    const Tensor d_w = d_w_NK.rows(rows_.begin(row_piece), rows).columns(first_column, columns);
    std::int64_t done = 0;
    if (transposes_ && f_TK.is_contiguous()) {
        const bool is_whole = rows == rows_.piece;
        done = add_transposed(is_whole ? of_whole_tile_ : of_last_tile_, d_y, f, d_w, scratch);
    }
    const std::int64_t rest = d_y.dim(0) - done;
    if (rest > 0) {
        add_transposed_product(d_y.rows(done, rest), f.rows(done, rest), d_w);
    }
}

const WeightProduct& weight_product(DType compute, std::int64_t N, std::int64_t K) {
    static ProductCache<WeightProduct> cache;
    return cache.get(compute, N, K);
}

}  // namespace dcp::kernels::cpu
