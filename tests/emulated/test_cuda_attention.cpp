// Attention of the CUDA backend on the emulator: the cases and the reference of the CPU backend, in
// sizes that suit an emulator.
#include <vector>

#include "tests/emulated/emulation.hpp"
#include "tests/support/attention_cases.hpp"
#include "tests/support/compare.hpp"
#include <catch2/catch.hpp>

#include "core/base/errors.hpp"

namespace dcp::test {
namespace {

using cuda_emu::MmaModel;
using cuda_emu::Schedule;
using kernels::AttentionSpan;
using kernels::GradMode;

constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16};

// Queries without keys, keys without queries, queries that see nothing or all, more queries than
// keys and the reverse.
std::vector<AttentionSpan> shards() {
    return {{0, 20, 0, 70, 50},  {20, 70, 70, 30, -20}, {90, 10, 100, 8, -40},
            {100, 5, 108, 0, 0}, {105, 0, 108, 9, 0},   {105, 6, 117, 90, 1000},
            {111, 1, 207, 33, 5}};
}

TEST_CASE("cuda attention: every head dimension, packed awkward lengths", "[emulated]") {
    Emulation emulation;
    for (const DType dtype : kTypes) {
        for (const std::int64_t D : {8, 64, 72, 80, 96, 128}) {
            check_attention(emulation.queue(),
                            {.dtype = dtype,
                             .H = 2,
                             .G = 1,
                             .D = D,
                             .spans = packed({33, 1, 130, 63}),
                             .causal = D != 72,
                             .gradient_dtype = D == 80 ? DType::kFloat32 : dtype});
        }
    }
    CHECK(emulation.counters().mma > 0);
    CHECK(emulation.counters().bank_conflicts == 0);
}

TEST_CASE("cuda attention: shards, whose queries and keys differ in number and position",
          "[emulated]") {
    Emulation emulation;
    for (const DType dtype : kTypes) {
        for (const bool causal : {true, false}) {
            check_attention(emulation.queue(), {.dtype = dtype,
                                                .H = 4,
                                                .G = 2,
                                                .D = 64,
                                                .spans = shards(),
                                                .causal = causal,
                                                .gradient_dtype = dtype});
        }
    }
}

TEST_CASE("cuda attention: strided rows, rows of nobody, accumulated gradients", "[emulated]") {
    Emulation emulation;
    for (const DType dtype : kTypes) {
        for (const DType gradients : {DType::kFloat32, dtype}) {
            AttentionCase c{.dtype = dtype,
                            .H = 2,
                            .G = 1,
                            .D = 96,
                            .spans = packed({10, 70, 35}),
                            .gradient_dtype = gradients,
                            .mode = GradMode::kAccumulate,
                            .gap = 24};
            check_attention(emulation.queue(), c);
            c.spans.erase(c.spans.begin());  // rows that are NaN in the inputs, and stay unwritten
            c.spare_rows = 3;
            c.mode = GradMode::kOverwrite;
            check_attention(emulation.queue(), c);
        }
    }
}

TEST_CASE("cuda attention: large scores", "[emulated]") {
    Emulation emulation;
    for (const DType dtype : kTypes) {
        check_attention(
            emulation.queue(),
            {.dtype = dtype, .H = 1, .G = 1, .D = 64, .spans = packed({90}), .query_scale = 64});
    }
}

TEST_CASE("cuda attention: right under every schedule and both models of the tensor core",
          "[emulated]") {
    for (const Schedule schedule :
         {Schedule::kForward, Schedule::kReverse, Schedule::kWarpByWarp}) {
        for (const MmaModel mma : {MmaModel::kChainToNearest, MmaModel::kSumToZero}) {
            Emulation emulation(schedule, mma);
            check_attention(emulation.queue(), {.dtype = DType::kBFloat16,
                                                .H = 2,
                                                .G = 1,
                                                .D = 64,
                                                .spans = packed({20, 130}),
                                                .gradient_dtype = DType::kBFloat16});
        }
    }
}

TEST_CASE("cuda attention: the same bits under any schedule and number of workers", "[emulated]") {
    for (const DType dtype : kTypes) {
        const AttentionCase c{.dtype = dtype,
                              .H = 4,
                              .G = 2,
                              .D = 64,
                              .spans = packed({65, 129}),
                              .gradient_dtype = dtype};
        const AttentionInputs in(c);
        AttentionResults expected(c);
        {
            Emulation emulation(Schedule::kForward);
            run_attention(emulation.queue(), c, in, expected);
        }
        Emulation emulation(Schedule::kUnfair);
        cuda_emu::config().workers = 2;
        AttentionResults out(c);
        run_attention(emulation.queue(), c, in, out);
        CHECK(same_bits(out.o, expected.o));
        CHECK(same_bits(out.lse, expected.lse));
        CHECK(same_bits(out.d_q, expected.d_q));
        CHECK(same_bits(out.d_k, expected.d_k));
        CHECK(same_bits(out.d_v, expected.d_v));
    }
}

TEST_CASE("cuda attention: the comparison sees one wrong key", "[emulated]") {
    Emulation emulation;
    const AttentionCase c{.D = 64, .spans = packed({70})};
    const AttentionInputs in(c);
    AttentionResults out(c);
    run_attention(emulation.queue(), c, in, out);
    Values k = in.k.values();
    k[static_cast<std::size_t>(40 * c.G * c.D + 5)] += 0.5;
    const reference::Attention spoilt =
        reference::attention(c.problem(), in.q.values(), k, in.v.values());
    CHECK(relative_error(out.o, spoilt.o) > 10 * attention_tolerances(c).outputs);
    CHECK(relative_error(out.lse, spoilt.lse) > 10 * attention_tolerances(c).lse);
}

TEST_CASE("cuda attention: what the backend lacks is refused by name", "[emulated]") {
    Emulation emulation;
    AttentionCase c{.dtype = DType::kBFloat16,
                    .D = 20,
                    .spans = packed({10}),
                    .gradient_dtype = DType::kBFloat16};
    const auto run = [&] {
        const AttentionInputs in(c);
        AttentionResults out(c);
        run_attention(emulation.queue(), c, in, out);
    };
    CHECK_THROWS_WITH(run(),
                      Catch::Contains("head dimension 20") && Catch::Contains("multiples of 8"));
    c.D = 136;
    CHECK_THROWS_AS(run(), UnsupportedError);
    c.D = 64;
    c.gap = 4;
    CHECK_THROWS_WITH(run(), Catch::Contains("q_THD") && Catch::Contains("16 bytes"));
}

}  // namespace
}  // namespace dcp::test
