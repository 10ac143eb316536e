// Attention of the CPU backend against its definition in double
// (tests/support/attention_cases.hpp), on awkward lengths, head dimensions and layouts; bitwise
// independence of the number of threads.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/attention_cases.hpp"
#include "tests/support/compare.hpp"
#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "core/base/errors.hpp"
#include "kernels/attention.hpp"
#include "kernels/cpu/attention.hpp"
#include "kernels/cpu/attention_products.hpp"

namespace dcp::test {
namespace {

using kernels::AttentionSpan;
using kernels::GradMode;
using Case = AttentionCase;
using Inputs = AttentionInputs;
using Results = AttentionResults;

void run(const Case& c, const Inputs& in, Results& out, int threads = 2) {
    Queue queue = Queue::cpu(threads);
    run_attention(queue, c, in, out);
}

void check_against_reference(const Case& c) {
    Queue queue = Queue::cpu(2);
    check_attention(queue, c);
}

// The backend with another implementation of the products, in the same steps as run_attention().
void run_with(const kernels::cpu::BlockProducts& products,
              const Case& c,
              const Inputs& in,
              Results& out) {
    Queue queue = Queue::cpu(2);
    const auto bytes =
        std::max(kernels::cpu::attention_forward_workspace_bytes(queue, c.sizes(), &products),
                 kernels::cpu::attention_backward_workspace_bytes(queue, c.sizes(), &products));
    TestTensor workspace = byte_tensor(bytes);
    kernels::cpu::attention_forward(queue, forward_args(c, in, out, workspace), &products);
    kernels::cpu::attention_backward(queue, backward_args(c, in, out, workspace), &products);
    CHECK(workspace.guards_intact());
    out.check_guards();
}

// bf16 needs products in hardware.
std::vector<DType> dtypes_here() {
    std::vector<DType> dtypes{DType::kFloat32};
    Queue queue = Queue::cpu(1);
    try {
        kernels::attention_prepare(queue, {DType::kBFloat16, 1, 1, 1, 1, 16});
        dtypes.push_back(DType::kBFloat16);
    } catch (const UnsupportedError&) {
        WARN("no bf16 products on this processor: fp32 only");
    }
    return dtypes;
}

TEST_CASE("attention: every head dimension, packed awkward lengths", "[unit]") {
    for (const DType dtype : dtypes_here()) {
        for (const std::int64_t D : {1, 7, 16, 32, 64, 80, 96, 128}) {
            for (const bool causal : {true, false}) {
                check_against_reference({.dtype = dtype,
                                         .D = D,
                                         .spans = packed({33, 1, 257, 2, 31, 64}),
                                         .causal = causal});
            }
        }
    }
}

TEST_CASE("attention: a sequence of several chunks of keys", "[unit]") {
    for (const DType dtype : dtypes_here()) {
        for (const GradMode mode : {GradMode::kOverwrite, GradMode::kAccumulate}) {
            for (const DType gradients : {DType::kFloat32, dtype}) {
                check_against_reference({.dtype = dtype,
                                         .H = 1,
                                         .G = 1,
                                         .D = 128,
                                         .spans = packed({600, 3, 270}),
                                         .gradient_dtype = gradients,
                                         .mode = mode});
            }
        }
        check_against_reference(
            {.dtype = dtype, .H = 1, .G = 1, .D = 112, .spans = packed({5, 600}), .causal = false});
    }
}

TEST_CASE("attention: grouped query heads", "[unit]") {
    for (const DType dtype : dtypes_here()) {
        for (const std::int64_t ratio : {1, 2, 4, 8, 12}) {
            check_against_reference({.dtype = dtype,
                                     .H = 24,
                                     .G = 24 / ratio,
                                     .D = 16,
                                     .spans = packed({70, 17, 150})});
        }
    }
}

TEST_CASE("attention: strided rows, rows of nobody, gradients of another type", "[unit]") {
    for (const DType dtype : dtypes_here()) {
        for (const std::int64_t gap : {1, 6, 64}) {
            std::vector<AttentionSpan> spans = packed({40, 100, 65});
            spans.erase(spans.begin());  // its rows are NaN in the inputs, and stay unwritten
            check_against_reference({.dtype = dtype,
                                     .H = 4,
                                     .G = 2,
                                     .D = 48,
                                     .spans = spans,
                                     .gradient_dtype = gap == 6 ? DType::kFloat32 : dtype,
                                     .gap = gap,
                                     .spare_rows = 3});
        }
    }
}

TEST_CASE("attention: shards, whose queries and keys differ in number and position", "[unit]") {
    // Queries without keys, keys without queries, queries that see nothing or all, more keys than a
    // chunk holds.
    const std::vector<AttentionSpan> spans{
        {0, 50, 0, 120, 70},      {50, 90, 120, 60, -20},    {140, 40, 180, 30, -40},
        {180, 20, 210, 0, 0},     {200, 0, 210, 25, 0},      {200, 10, 235, 300, 1000},
        {210, 100, 535, 100, -1}, {310, 150, 635, 600, 455}, {460, 1, 1235, 33, 5},
    };
    for (const DType dtype : dtypes_here()) {
        for (const bool causal : {true, false}) {
            check_against_reference({.dtype = dtype,
                                     .H = 4,
                                     .G = 2,
                                     .D = 128,
                                     .spans = spans,
                                     .causal = causal,
                                     .gradient_dtype = dtype});
        }
    }
}

TEST_CASE("attention: a query that sees no key is the neutral element", "[unit]") {
    for (const DType dtype : dtypes_here()) {
        const Case c{.dtype = dtype, .spans = {{0, 40, 0, 40, -10}}};
        const Inputs in(c);
        Results out(c);
        run(c, in, out);
        const Values o = out.o.values();
        const Values lse = out.lse.values();
        const Values d_q = out.d_q.values();
        const auto row_elems = static_cast<std::size_t>(c.H * c.D);
        CHECK(std::all_of(o.begin(), o.begin() + 10 * static_cast<std::ptrdiff_t>(row_elems),
                          [](double x) { return x == 0; }));
        CHECK(std::all_of(d_q.begin(), d_q.begin() + 10 * static_cast<std::ptrdiff_t>(row_elems),
                          [](double x) { return x == 0; }));
        CHECK(std::all_of(lse.begin(), lse.begin() + 10,
                          [](double x) { return x == -std::numeric_limits<double>::infinity(); }));
        CHECK(std::isfinite(lse[10]));
        // The last ten keys are seen by nobody.
        const Values d_v = out.d_v.values();
        CHECK(std::all_of(d_v.begin() + 30 * static_cast<std::ptrdiff_t>(row_elems), d_v.end(),
                          [](double x) { return x == 0; }));
    }
}

TEST_CASE("attention: large scores", "[unit]") {
    for (const DType dtype : dtypes_here()) {
        for (const double query_scale : {8.0, 64.0}) {
            check_against_reference(
                {.dtype = dtype, .D = 64, .spans = packed({200, 90}), .query_scale = query_scale});
        }
    }
}

TEST_CASE("attention: the same bits for any number of threads, every time", "[unit]") {
    for (const DType dtype : dtypes_here()) {
        for (const std::int64_t D : {32, 128}) {
            const Case c{.dtype = dtype,
                         .H = 4,
                         .G = 2,
                         .D = D,
                         .spans = packed({1, 1400, 31, 33, 64, 257, 700, 2}),
                         .gradient_dtype = dtype};
            const Inputs in(c);
            Results expected(c);
            run(c, in, expected, 1);
            for (const int threads : {1, 2, 3, 5, 5}) {
                INFO(c.name() << ", threads: " << threads);
                Results out(c);
                run(c, in, out, threads);
                CHECK(same_bits(out.o, expected.o));
                CHECK(same_bits(out.lse, expected.lse));
                CHECK(same_bits(out.d_q, expected.d_q));
                CHECK(same_bits(out.d_k, expected.d_k));
                CHECK(same_bits(out.d_v, expected.d_v));
            }
        }
    }
}

TEST_CASE("attention: a sequence does not depend on its neighbours", "[unit]") {
    for (const DType dtype : dtypes_here()) {
        const Case alone{.dtype = dtype, .D = 80, .spans = packed({333})};
        Case among = alone;
        among.spans = packed({333, 20, 900});
        Results expected(alone);
        Results out(among);
        run(alone, Inputs(alone), expected);
        run(among, Inputs(among), out);
        CHECK(same_bits(out.o.tensor().rows(0, 333), expected.o));
        CHECK(same_bits(out.d_q.tensor().rows(0, 333), expected.d_q));
        CHECK(same_bits(out.d_k.tensor().rows(0, 333), expected.d_k));
    }
}

TEST_CASE("attention: thousands of short sequences in one call", "[unit]") {
    std::vector<std::int64_t> lengths;
    for (std::int64_t i = 0; i < 3000; i++) {
        lengths.push_back(1 + i % 7);
    }
    for (const DType dtype : dtypes_here()) {
        check_against_reference(
            {.dtype = dtype, .H = 2, .G = 1, .D = 16, .spans = packed(lengths)});
    }
}

TEST_CASE("attention: both implementations of the products", "[unit]") {
    using kernels::cpu::ProductKind;
    for (const DType dtype : dtypes_here()) {
        for (const ProductKind kind : {ProductKind::kXsmm, ProductKind::kOneDnn}) {
            for (const std::int64_t D : {7, 80}) {
                const auto& products = kernels::cpu::block_products(kind, dtype, D);
                check_attention([&](const Case& c, const Inputs& in,
                                    Results& out) { run_with(products, c, in, out); },
                                {.dtype = dtype,
                                 .H = 2,
                                 .G = 1,
                                 .D = D,
                                 .spans = packed({1, 31, 600, 257, 64}),
                                 .gradient_dtype = dtype});
            }
        }
    }
}

TEST_CASE("attention: the comparison sees one wrong key", "[unit]") {
    const Case c{.spans = packed({257})};
    const Inputs in(c);
    Results out(c);
    run(c, in, out);
    Values k = in.k.values();
    k[static_cast<std::size_t>(130 * c.G * c.D + 5)] += 0.5;
    const reference::Attention spoilt =
        reference::attention(c.problem(), in.q.values(), k, in.v.values());
    CHECK(relative_error(out.o, spoilt.o) > 10 * attention_tolerances(c).outputs);
    CHECK(relative_error(out.lse, spoilt.lse) > 10 * attention_tolerances(c).lse);
}

TEST_CASE("attention: work is counted as visible pairs", "[unit]") {
    const std::vector<AttentionSpan> spans{{0, 5, 0, 5, 0}, {5, 4, 5, 6, -2}, {9, 3, 11, 2, 7}};
    // Causal: 15; 0 + 0 + 1 + 2; 2 each.
    CHECK(kernels::attention_flops(spans, true, 3, 8) == 4.0 * 8 * 3 * (15 + 3 + 6));
    CHECK(kernels::attention_flops(spans, false, 3, 8) == 4.0 * 8 * 3 * (25 + 24 + 6));
}

TEST_CASE("attention: workspace is bounded by the tokens, whatever the spans", "[unit]") {
    const Queue queue = Queue::cpu(4);
    const kernels::AttentionSizes small{DType::kBFloat16, 1000, 1000, 8, 8, 64};
    kernels::AttentionSizes large = small;
    large.num_queries = 101000;
    large.num_keys = 101000;
    const auto growth = kernels::attention_backward_workspace_bytes(queue, large) -
                        kernels::attention_backward_workspace_bytes(queue, small);
    // fp32 sums of query gradients, and at most 40 bytes a token and head beside them.
    CHECK(growth <= 100000 * 8 * (64 * sizeof(float) + 40));
    CHECK(kernels::attention_forward_workspace_bytes(queue, large) -
              kernels::attention_forward_workspace_bytes(queue, small) <=
          100000 * 16);
}

TEST_CASE("attention: what does not fit is refused", "[unit]") {
    Case c{.spans = packed({10})};
    const Inputs in(c);
    Results out(c);
    c.spans[0].q_count = 11;
    CHECK_THROWS_AS(run(c, in, out), ShapeError);
    c.spans[0] = {0, 10, -1, 10, 0};
    CHECK_THROWS_AS(run(c, in, out), ShapeError);
    c.spans = packed({10});
    Case other = c;
    other.D = 31;
    Results narrow(other);
    CHECK_THROWS_AS(run(c, in, narrow), ShapeError);
    other = c;
    other.dtype = DType::kBFloat16;
    Results rounded(other);
    CHECK_THROWS_AS(run(c, in, rounded), ShapeError);
    run(c, in, out);
}

}  // namespace
}  // namespace dcp::test
