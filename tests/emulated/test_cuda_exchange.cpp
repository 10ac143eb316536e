// What ranks do around their exchanges, on the CUDA backend: merging partial attention, and rows
// put together.
#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/attention_cases.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/test_queue.hpp"
#include <catch2/catch.hpp>

#include "core/base/errors.hpp"
#include "kernels/attention_merge.hpp"
#include "kernels/sum_rows.hpp"

namespace dcp::test {
namespace {

using kernels::AttentionSpan;

// The keys of every span in two parts, as two ranks of a ring have them.
std::vector<AttentionSpan> half_of(const std::vector<AttentionSpan>& spans, bool is_second) {
    std::vector<AttentionSpan> halves = spans;
    for (AttentionSpan& span : halves) {
        const std::int64_t first = span.k_count / 3;
        span.k_begin += is_second ? first : 0;
        span.q_offset -= is_second ? first : 0;
        span.k_count = is_second ? span.k_count - first : first;
    }
    return halves;
}

// Attention over both parts, merged, is attention over all keys.
void check_merge(DType dtype, const std::vector<AttentionSpan>& spans) {
    TestQueue queue(1);
    const AttentionCase whole{
        .dtype = dtype, .H = 2, .G = 1, .D = 64, .spans = spans, .spare_rows = 2};
    INFO(whole.name());
    const AttentionInputs in(whole);
    TestTensor o_sum = nan_tensor(DType::kFloat32, {whole.num_queries(), 2, 64}, 2 * 64 + 4);
    TestTensor lse_sum = nan_tensor(DType::kFloat32, {2, whole.num_queries()});
    o_sum.set(Values(static_cast<std::size_t>(o_sum.shape().num_elems()), 0));
    lse_sum.set(Values(static_cast<std::size_t>(lse_sum.shape().num_elems()),
                       -std::numeric_limits<double>::infinity()));
    for (const bool is_second : {false, true}) {
        AttentionCase part = whole;
        part.spans = half_of(spans, is_second);
        AttentionResults out(whole);
        TestTensor workspace =
            byte_tensor(kernels::attention_forward_workspace_bytes(queue, whole.sizes()));
        kernels::attention_forward(queue, forward_args(part, in, out, workspace));
        kernels::attention_merge(queue, {.o_THD = out.o,
                                         .lse_HT = out.lse,
                                         .o_sum_THD = o_sum,
                                         .lse_sum_HT = lse_sum,
                                         .spans = part.spans});
    }
    reference::Attention expected =
        reference::attention(whole.problem(), in.q.values(), in.k.values(), in.v.values());
    for (Values* values : {&expected.o, &expected.lse}) {  // rows of nobody keep what they had
        for (double& value : *values) {
            value = std::isnan(value)
                        ? (values == &expected.o ? 0 : -std::numeric_limits<double>::infinity())
                        : value;
        }
    }
    // bf16 parts are rounded before they are merged, as the whole is at its end.
    const AttentionTolerances tolerance = attention_tolerances(whole);
    CHECK(relative_error(o_sum, expected.o) < 2 * tolerance.outputs);
    CHECK(relative_error(lse_sum, expected.lse) < 2 * tolerance.lse);
    CHECK(o_sum.guards_intact());
    CHECK(lse_sum.guards_intact());
}

TEST_CASE("cuda exchange: merged parts of attention are the whole", "[emulated]") {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        check_merge(dtype, packed({33, 1, 70}));
        check_merge(dtype, {{0, 20, 0, 50, 30}, {30, 10, 60, 40, -35}});
    }
    // More ranges of rows than one launch takes.
    std::vector<AttentionSpan> many;
    for (std::int64_t i = 0; i < 130; i++) {
        many.push_back({3 * i, 2, 2 * i, 2, 0});
    }
    check_merge(DType::kFloat32, many);
}

TEST_CASE("cuda exchange: rows are added in order and rounded once", "[emulated]") {
    TestQueue queue(1);
    const DType to_type = GENERATE(DType::kFloat32, DType::kBFloat16);
    const auto num_sources = GENERATE(0, 1, 3, 8);
    const auto C = GENERATE(as<std::int64_t>{}, 1, 7, 8, 33, 64);
    CAPTURE(name(to_type), num_sources, C);
    constexpr std::int64_t T = 5;
    std::vector<TestTensor> sources;
    std::vector<ConstTensor> views;
    std::vector<float> sum(static_cast<std::size_t>(T * C), 0.0F);
    for (int s = 0; s < num_sources; s++) {
        const DType type = s % 2 == 0 ? DType::kFloat32 : DType::kBFloat16;
        sources.push_back(random_tensor(type, {T, C}, static_cast<std::uint64_t>(s), 1, 0, C + s));
        const Values values = sources.back().values();
        for (std::size_t i = 0; i < values.size(); i++) {
            sum[i] += static_cast<float>(values[i]);
        }
    }
    for (const TestTensor& source : sources) {
        views.push_back(source.tensor());
    }
    TestTensor to = nan_tensor(to_type, {T, C}, C + 3);
    kernels::sum_rows(queue, {.from = views, .to = to});
    Values expected;
    for (const float value : sum) {
        expected.push_back(static_cast<double>(
            to_type == DType::kBFloat16 ? static_cast<float>(BFloat16(value)) : value));
    }
    CHECK(to.values() == expected);
    CHECK(to.guards_intact());
}

TEST_CASE("cuda exchange: a copy keeps every bit", "[emulated]") {
    TestQueue queue(1);
    for (const DType type : {DType::kFloat32, DType::kBFloat16}) {
        TestTensor from = random_tensor(type, {4, 9}, 1, 1, 0, 11);
        from.set(3, std::numeric_limits<double>::quiet_NaN());
        TestTensor to = nan_tensor(type, {4, 9}, 9);
        kernels::copy_rows(queue, from, to);
        CHECK(same_bits(to, from));
        kernels::copy_rows(queue, from, from);
        CHECK(same_bits(to, from));
        CHECK(to.guards_intact());
    }
}

TEST_CASE("cuda exchange: more sources than a launch takes are refused", "[emulated]") {
    TestQueue queue(1);
    const TestTensor from = random_tensor(DType::kFloat32, {2, 3}, 1);
    const std::vector<ConstTensor> many(65, from.tensor());
    TestTensor to = nan_tensor(DType::kFloat32, {2, 3});
    CHECK_THROWS_AS(kernels::sum_rows(queue, {.from = many, .to = to}), UnsupportedError);
}

}  // namespace
}  // namespace dcp::test
