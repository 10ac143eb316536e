// The three products of a linear layer against plain loops in double, for everything that may stand
// in front of the product. The reference starts from what is stored: x, d_y and the residual in
// their type, weights rounded to the compute type.
#include "tests/support/compare.hpp"
#include "tests/support/reference.hpp"
#include "tests/support/tensors.hpp"
#include "tests/support/test_queue.hpp"
#include <catch2/catch.hpp>

#include "core/base/errors.hpp"
#include "kernels/linear.hpp"
#include "kernels/rope.hpp"

using namespace dcp;
using namespace dcp::test;
using kernels::InputKind;

namespace {

constexpr double kNormEpsilon = 1e-5;
constexpr DType kF32 = DType::kFloat32;
constexpr InputKind kAllKinds[] = {InputKind::kPlain, InputKind::kRmsNorm, InputKind::kLayerNorm,
                                   InputKind::kSwiGlu, InputKind::kGelu};

// Norm-wise: sums of `terms` products in fp32, a few roundings of fp32 around them, and where
// bf16 is stored half a unit for each of f(x) and the result.
double tolerance(DType dtype, std::int64_t terms) {
    const double sums = static_cast<double>(terms + 16) * epsilon(kF32);
    return dtype == DType::kBFloat16 ? sums + epsilon(dtype) : sums;
}

bool is_norm(InputKind kind) {
    return kind == InputKind::kRmsNorm || kind == InputKind::kLayerNorm;
}

Values sum(Values a, const Values& b) {
    for (std::size_t index = 0; index < a.size(); ++index) {
        a[index] += b[index];
    }
    return a;
}

Values rounded(DType dtype, const Shape& shape, const Values& values) {
    return value_tensor(dtype, shape, values).values();
}

struct Sizes {
    std::int64_t T;
    std::int64_t N;
    std::int64_t K;
};

// One layer with its operands.
struct Layer {
    Layer(Queue& on, InputKind f, DType compute, Sizes sizes, std::int64_t x_padding = 0)
        : queue(on),
          kind(f),
          dtype(compute),
          T(sizes.T),
          N(sizes.N),
          K(sizes.K),
          x(random_tensor(
              compute, {T, x_width()}, 1, 1, 0.25, x_padding == 0 ? 0 : x_width() + x_padding)),
          master(random_tensor(kF32, {N, K}, 2, 0.5)),
          norm_weight(random_tensor(kF32, {K}, 3, 0.25, 1)),
          norm_bias(random_tensor(kF32, {K}, 4, 0.25)),
          mean(nan_tensor(kF32, {T})),
          inverse(nan_tensor(kF32, {T})),
          residual(random_tensor(compute, {T, N}, 5)),
          d_y(random_tensor(compute, {T, N}, 6)),
          prepared(byte_tensor(kernels::linear_prepared_bytes(on, compute, N, K))),
          workspace(byte_tensor(kernels::linear_workspace_bytes(on, compute, T, N, K))) {
        kernels::linear_prepare(queue, master, weight());
    }

    std::int64_t x_width() const { return kind == InputKind::kSwiGlu ? 2 * K : K; }
    kernels::LinearWeight weight() {
        return {.prepared = prepared, .dtype = dtype, .N = N, .K = K};
    }
    kernels::LinearInput input() {
        return {.kind = kind,
                .x = x,
                .norm_weight_K = norm_weight,
                .norm_bias_K = norm_bias,
                .mean_T = mean,
                .inverse_rms_T = inverse,
                .epsilon = static_cast<float>(kNormEpsilon)};
    }
    // What the backward passes read of the forward pass.
    void fill_statistics() {
        if (is_norm(kind)) {
            inverse.set(norm().inverse);
        }
        if (kind == InputKind::kLayerNorm) {
            mean.set(norm().mean);
        }
    }
    bool guards_intact() const {
        return x.guards_intact() && prepared.guards_intact() && workspace.guards_intact() &&
               mean.guards_intact() && inverse.guards_intact();
    }

    Values w() const { return rounded(dtype, {N, K}, master.values()); }
    reference::Norm norm() const {
        return kind == InputKind::kRmsNorm
                   ? reference::rmsnorm(x.values(), norm_weight.values(), kNormEpsilon)
                   : reference::layernorm(x.values(), norm_weight.values(), norm_bias.values(),
                                          kNormEpsilon);
    }
    Values f() const {
        switch (kind) {
            case InputKind::kPlain:
                return x.values();
            case InputKind::kSwiGlu:
                return reference::swiglu(x.values(), K);
            case InputKind::kGelu:
                return reference::gelu(x.values());
            default:
                return norm().y;
        }
    }
    Values y() const { return reference::linear(f(), w(), N, K); }
    reference::NormGradients backward_input() const {
        const Values d_f = reference::linear_backward_input(d_y.values(), w(), N, K);
        switch (kind) {
            case InputKind::kPlain:
                return {.d_x = d_f};
            case InputKind::kSwiGlu:
                return {.d_x = reference::swiglu_backward(d_f, x.values(), K)};
            case InputKind::kGelu:
                return {.d_x = reference::gelu_backward(d_f, x.values())};
            case InputKind::kRmsNorm:
                return reference::rmsnorm_backward(d_f, x.values(), norm_weight.values(),
                                                   kNormEpsilon);
            default:
                return reference::layernorm_backward(d_f, x.values(), norm_weight.values(),
                                                     kNormEpsilon);
        }
    }
    Values backward_weight() const {
        return reference::linear_backward_weight(d_y.values(), f(), N, K);
    }

    Queue& queue;
    InputKind kind;
    DType dtype;
    std::int64_t T;
    std::int64_t N;
    std::int64_t K;
    TestTensor x;
    TestTensor master;
    TestTensor norm_weight;
    TestTensor norm_bias;
    TestTensor mean;
    TestTensor inverse;
    TestTensor residual;
    TestTensor d_y;
    TestTensor prepared;
    TestTensor workspace;
};

// Empty, single, tails of vectors and of tiles, several tiles, more than one chunk of rows.
constexpr Sizes kSizes[] = {{0, 31, 7},     {1, 1, 1},     {1, 257, 31},  {31, 7, 257},
                            {33, 31, 31},   {257, 257, 7}, {257, 1, 257}, {700, 31, 7},
                            {700, 257, 31}, {2100, 7, 31}};

// body(queue, kind, dtype, sizes) for everything that this processor can multiply.
template <class Body>
void for_each_layer(Body body) {
    TestQueue queue(2);
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        if (!kernels::supports_dtype(queue, dtype)) {
            continue;
        }
        for (const InputKind kind : kAllKinds) {
            for (const Sizes& sizes : kSizes) {
                // The norm of a single number is its sign: nothing to differentiate.
                if (is_norm(kind) && sizes.K == 1) {
                    continue;
                }
                CAPTURE(name(dtype), static_cast<int>(kind), sizes.T, sizes.N, sizes.K);
                body(queue, kind, dtype, sizes);
            }
        }
    }
}

}  // namespace

TEST_CASE("linear_forward matches the double-precision loop", "[unit][kernels]") {
    for_each_layer([](Queue& queue, InputKind kind, DType dtype, Sizes sizes) {
        Layer layer(queue, kind, dtype, sizes);
        TestTensor y = nan_tensor(dtype, {layer.T, layer.N});
        kernels::linear_forward(queue, {.input = layer.input(),
                                        .weight = layer.weight(),
                                        .y_TN = y,
                                        .workspace = layer.workspace});
        CHECK(relative_error(y, layer.y()) <= tolerance(dtype, layer.K));

        // The residual in y itself.
        TestTensor sum_in_place = random_tensor(dtype, {layer.T, layer.N}, 5);
        kernels::linear_forward(queue, {.input = layer.input(),
                                        .weight = layer.weight(),
                                        .residual_TN = sum_in_place,
                                        .y_TN = sum_in_place,
                                        .workspace = layer.workspace});
        CHECK(relative_error(sum_in_place, sum(layer.y(), layer.residual.values())) <=
              tolerance(dtype, layer.K));

        if (is_norm(kind)) {
            const double statistics = tolerance(kF32, layer.K);
            CHECK(relative_error(layer.inverse, layer.norm().inverse) <= statistics);
        }
        CHECK(y.guards_intact());
        CHECK(sum_in_place.guards_intact());
        CHECK(layer.guards_intact());
    });
}

TEST_CASE("linear_forward reads and writes column blocks of wider matrices", "[unit][kernels]") {
    TestQueue queue(2);
    for (const InputKind kind : kAllKinds) {
        Layer layer(queue, kind, kF32, {257, 31, 33}, 5);
        TestTensor y = nan_tensor(kF32, {layer.T, layer.N}, layer.N + 3);
        TestTensor residual = random_tensor(kF32, {layer.T, layer.N}, 7, 1, 0, layer.N + 9);
        kernels::linear_forward(queue, {.input = layer.input(),
                                        .weight = layer.weight(),
                                        .y_TN = y,
                                        .workspace = layer.workspace});
        CHECK(relative_error(y, layer.y()) <= tolerance(kF32, layer.K));
        kernels::linear_forward(queue, {.input = layer.input(),
                                        .weight = layer.weight(),
                                        .residual_TN = residual,
                                        .y_TN = y,
                                        .workspace = layer.workspace});
        CHECK(relative_error(y, sum(layer.y(), residual.values())) <= tolerance(kF32, layer.K));
        CHECK(y.guards_intact());
    }
}

TEST_CASE("linear_forward turns the first heads by their positions", "[unit][kernels]") {
    constexpr std::int64_t kHeads = 3;
    constexpr std::int64_t kHeadDim = 10;
    constexpr std::int64_t kPositions = 50;
    constexpr double kTheta = 10000;
    TestQueue queue(2);
    TestTensor cos = nan_tensor(kF32, {kPositions, kHeadDim / 2});
    TestTensor sin = nan_tensor(kF32, {kPositions, kHeadDim / 2});
    kernels::rope_fill_table(queue, {.cos_PD = cos, .sin_PD = sin}, kTheta);
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        if (!kernels::supports_dtype(queue, dtype)) {
            continue;
        }
        Layer layer(queue, InputKind::kRmsNorm, dtype, {77, 41, 31});
        std::vector<std::int32_t> positions;
        for (std::int32_t t = 0; t < 77; ++t) {
            positions.push_back(t % static_cast<std::int32_t>(kPositions));
        }
        TestTensor positions_T = int_tensor(positions);
        TestTensor y = nan_tensor(dtype, {layer.T, layer.N});
        kernels::linear_forward(queue, {.input = layer.input(),
                                        .weight = layer.weight(),
                                        .y_TN = y,
                                        .rope = {.num_heads = kHeads,
                                                 .head_dim = kHeadDim,
                                                 .positions_T = positions_T,
                                                 .cos_PD = cos,
                                                 .sin_PD = sin},
                                        .workspace = layer.workspace});
        Values expected = layer.y();
        constexpr auto kTurned = static_cast<std::size_t>(kHeads * kHeadDim);
        const auto width = static_cast<std::size_t>(layer.N);
        for (std::size_t t = 0; t < positions.size(); ++t) {
            const auto row = expected.begin() + static_cast<std::ptrdiff_t>(t * width);
            const Values turned =
                reference::rope({row, row + kTurned}, {positions[t]}, kHeadDim, kTheta, false);
            std::copy(turned.begin(), turned.end(), row);
        }
        // The turned elements are rounded once more.
        CHECK(relative_error(y, expected) <= tolerance(dtype, layer.K) + epsilon(dtype));
    }
}

TEST_CASE("linear_backward_input matches the double-precision loop", "[unit][kernels]") {
    for_each_layer([](Queue& queue, InputKind kind, DType dtype, Sizes sizes) {
        Layer layer(queue, kind, dtype, sizes);
        layer.fill_statistics();
        const reference::NormGradients expected = layer.backward_input();
        TestTensor d_x = nan_tensor(dtype, {layer.T, layer.x_width()});
        TestTensor d_norm_weight = random_tensor(kF32, {layer.K}, 8);
        TestTensor d_norm_bias = random_tensor(kF32, {layer.K}, 9);
        const Values before_weight = d_norm_weight.values();
        const Values before_bias = d_norm_bias.values();
        kernels::LinearBackwardInput args{.d_y_TN = layer.d_y,
                                          .input = layer.input(),
                                          .weight = layer.weight(),
                                          .d_x = d_x,
                                          .d_norm_weight_K = d_norm_weight,
                                          .d_norm_bias_K = d_norm_bias,
                                          .workspace = layer.workspace};
        kernels::linear_backward_input(queue, args);
        // The derivative of a norm is a difference of what has been summed over K.
        const std::int64_t terms = layer.N + layer.K;
        CHECK(relative_error(d_x, expected.d_x) <= 4 * tolerance(dtype, terms));
        if (is_norm(kind)) {
            CHECK(relative_error(d_norm_weight, sum(before_weight, expected.d_weight)) <=
                  4 * tolerance(kF32, terms + layer.T));
        }
        if (kind == InputKind::kLayerNorm) {
            CHECK(relative_error(d_norm_bias, sum(before_bias, expected.d_bias)) <=
                  4 * tolerance(kF32, terms + layer.T));
        }
        CHECK(d_x.guards_intact());
        CHECK(d_norm_weight.guards_intact());
        CHECK(d_norm_bias.guards_intact());
        CHECK(layer.guards_intact());

        if (is_norm(kind) || kind == InputKind::kPlain) {
            TestTensor in_place = random_tensor(dtype, {layer.T, layer.K}, 10);
            const Values residual = in_place.values();
            args.residual_TK = in_place;
            args.d_x = in_place;
            kernels::linear_backward_input(queue, args);
            CHECK(relative_error(in_place, sum(residual, expected.d_x)) <=
                  4 * tolerance(dtype, terms));
        } else {
            args.d_x = layer.x;
            kernels::linear_backward_input(queue, args);
            CHECK(same_bits(layer.x, d_x));
        }
    });
}

TEST_CASE("linear_backward_weight overwrites or adds", "[unit][kernels]") {
    for_each_layer([](Queue& queue, InputKind kind, DType dtype, Sizes sizes) {
        Layer layer(queue, kind, dtype, sizes);
        layer.fill_statistics();
        const Values expected = layer.backward_weight();
        TestTensor d_w = nan_tensor(kF32, {layer.N, layer.K});
        kernels::LinearBackwardWeight args{.d_y_TN = layer.d_y,
                                           .input = layer.input(),
                                           .weight = layer.weight(),
                                           .d_w_NK = d_w,
                                           .mode = kernels::GradMode::kOverwrite,
                                           .workspace = layer.workspace};
        kernels::linear_backward_weight(queue, args);
        CHECK(relative_error(d_w, expected) <= tolerance(dtype, layer.T));

        TestTensor added = random_tensor(kF32, {layer.N, layer.K}, 11);
        const Values before = added.values();
        args.d_w_NK = added;
        args.mode = kernels::GradMode::kAccumulate;
        kernels::linear_backward_weight(queue, args);
        CHECK(relative_error(added, sum(before, expected)) <= tolerance(dtype, layer.T));
        CHECK(d_w.guards_intact());
        CHECK(added.guards_intact());
        CHECK(layer.guards_intact());
    });
}

TEST_CASE("no product depends on the number of threads", "[unit][kernels]") {
    struct Results {
        TestTensor y, d_x, d_norm_weight, d_w;
    };
    const auto run = [](int threads, InputKind kind, DType dtype) {
        TestQueue queue(threads);
        Layer layer(queue, kind, dtype, {700, 257, 129});
        Results results{
            nan_tensor(dtype, {layer.T, layer.N}), nan_tensor(dtype, {layer.T, layer.x_width()}),
            value_tensor(kF32, {layer.K}, Values(129, 0.5)), nan_tensor(kF32, {layer.N, layer.K})};
        TestTensor d_norm_bias = random_tensor(kF32, {layer.K}, 9);
        kernels::linear_forward(queue, {.input = layer.input(),
                                        .weight = layer.weight(),
                                        .y_TN = results.y,
                                        .workspace = layer.workspace});
        kernels::linear_backward_weight(queue, {.d_y_TN = layer.d_y,
                                                .input = layer.input(),
                                                .weight = layer.weight(),
                                                .d_w_NK = results.d_w,
                                                .mode = kernels::GradMode::kOverwrite,
                                                .workspace = layer.workspace});
        kernels::linear_backward_input(queue, {.d_y_TN = layer.d_y,
                                               .input = layer.input(),
                                               .weight = layer.weight(),
                                               .d_x = results.d_x,
                                               .d_norm_weight_K = results.d_norm_weight,
                                               .d_norm_bias_K = d_norm_bias,
                                               .workspace = layer.workspace});
        return results;
    };
    TestQueue queue(1);
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        for (const InputKind kind : kAllKinds) {
            if (!kernels::supports_dtype(queue, dtype)) {
                continue;
            }
            CAPTURE(name(dtype), static_cast<int>(kind));
            const Results one = run(1, kind, dtype);
            const Results three = run(3, kind, dtype);
            CHECK(same_bits(one.y, three.y));
            CHECK(same_bits(one.d_x, three.d_x));
            CHECK(same_bits(one.d_norm_weight, three.d_norm_weight));
            CHECK(same_bits(one.d_w, three.d_w));
        }
    }
}

TEST_CASE("a row of y depends on its own row of x alone", "[unit][kernels]") {
    TestQueue queue(2);
    Layer layer(queue, InputKind::kRmsNorm, kF32, {257, 31, 33});
    TestTensor y = nan_tensor(kF32, {layer.T, layer.N});
    TestTensor y_spoilt = nan_tensor(kF32, {layer.T, layer.N});
    kernels::LinearForward args{
        .input = layer.input(), .weight = layer.weight(), .y_TN = y, .workspace = layer.workspace};
    kernels::linear_forward(queue, args);
    layer.x.set(100 * layer.K + 5, std::numeric_limits<double>::quiet_NaN());
    args.y_TN = y_spoilt;
    kernels::linear_forward(queue, args);
    const auto rows = [](TestTensor& of, std::int64_t begin, std::int64_t count) {
        return of.tensor().rows(begin, count);
    };
    CHECK(same_bits(rows(y, 0, 100), rows(y_spoilt, 0, 100)));
    CHECK(same_bits(rows(y, 101, 156), rows(y_spoilt, 101, 156)));
    CHECK_FALSE(same_bits(rows(y, 100, 1), rows(y_spoilt, 100, 1)));
}

TEST_CASE("the comparison of products notices one wrong weight", "[unit][kernels]") {
    TestQueue queue(1);
    Layer layer(queue, InputKind::kPlain, kF32, {257, 257, 31});
    const Values right = layer.y();
    layer.master.set(257 * 31 - 1, layer.master.values().back() + 0.01);
    kernels::linear_prepare(queue, layer.master, layer.weight());
    TestTensor y = nan_tensor(kF32, {layer.T, layer.N});
    kernels::linear_forward(queue, {.input = layer.input(),
                                    .weight = layer.weight(),
                                    .y_TN = y,
                                    .workspace = layer.workspace});
    CHECK_FALSE(relative_error(y, right) <= tolerance(kF32, layer.K));
}

TEST_CASE("linear refuses what it cannot multiply", "[unit][kernels]") {
    TestQueue queue(1);
    Layer layer(queue, InputKind::kPlain, kF32, {5, 7, 3});
    TestTensor y = nan_tensor(kF32, {5, 7});
    kernels::LinearForward args{
        .input = layer.input(), .weight = layer.weight(), .y_TN = y, .workspace = layer.workspace};
    SECTION("a result of another width") {
        TestTensor narrow = nan_tensor(kF32, {5, 6});
        args.y_TN = narrow;
        CHECK_THROWS_AS(kernels::linear_forward(queue, args), ShapeError);
    }
    SECTION("a workspace that is too small") {
        args.workspace = layer.workspace.tensor().rows(0, 64);
        CHECK_THROWS_AS(kernels::linear_forward(queue, args), ShapeError);
    }
    SECTION("a weight that was never prepared") {
        args.weight.prepared = {};
        CHECK_THROWS_AS(kernels::linear_forward(queue, args), ShapeError);
    }
    SECTION("a plain input in another type than the weight") {
        TestTensor x = random_tensor(DType::kBFloat16, {5, 3}, 1);
        args.input.x = x;
        CHECK_THROWS_AS(kernels::linear_forward(queue, args), ShapeError);
    }
    SECTION("a residual around an activation") {
        TestTensor d_x = nan_tensor(kF32, {5, 3});
        kernels::LinearBackwardInput backward{.d_y_TN = layer.d_y,
                                              .input = layer.input(),
                                              .weight = layer.weight(),
                                              .residual_TK = layer.x,
                                              .d_x = d_x,
                                              .workspace = layer.workspace};
        backward.input.kind = InputKind::kGelu;
        CHECK_THROWS_AS(kernels::linear_backward_input(queue, backward), ShapeError);
    }
    SECTION("a weight without elements") {
        CHECK_THROWS_AS(kernels::linear_prepared_bytes(queue, kF32, 0, 3), ShapeError);
    }
    SECTION("bf16 where the processor has no bf16 products") {
        if (!kernels::supports_dtype(queue, DType::kBFloat16)) {
            CHECK_THROWS_AS(kernels::linear_prepared_bytes(queue, DType::kBFloat16, 7, 3),
                            UnsupportedError);
        }
    }
}

TEST_CASE("the rate of products is a rate that a processor can have", "[unit][kernels][cpu-only]") {
    TestQueue queue(1);
    const double rate = kernels::measure_matmul_flops_per_second(queue, kF32);
    CHECK(rate > 1e8);
    CHECK(rate < 1e13);
    CHECK(kernels::linear_flops(2, 3, 4) == 48);
}
