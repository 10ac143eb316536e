// The fused end of a language model against its parts in double: norm, product, cross-entropy, and
// back. The reference starts from what is stored, weights rounded to the compute type.
#include "tests/support/compare.hpp"
#include "tests/support/reference.hpp"
#include "tests/support/tensors.hpp"
#include "tests/support/test_queue.hpp"
#include <catch2/catch.hpp>

#include "core/base/errors.hpp"
#include "kernels/head_loss.hpp"

using namespace dcp;
using namespace dcp::test;
using kernels::InputKind;

namespace {

constexpr double kNormEpsilon = 1e-5;
constexpr DType kF32 = DType::kFloat32;

struct Sizes {
    std::int64_t T;
    std::int64_t V;
    std::int64_t C;
};

Values sum(Values a, const Values& b) {
    for (std::size_t index = 0; index < a.size(); ++index) {
        a[index] += b[index];
    }
    return a;
}

// Every fifth token is masked; the others point anywhere, the first and the last word included.
std::vector<std::int32_t> some_targets(std::int64_t T, std::int64_t V) {
    std::vector<std::int32_t> targets;
    for (std::int64_t t = 0; t < T; ++t) {
        const std::int64_t word = t % 2 == 0 ? (t * 7919) % V : V - 1 - (t * 104729) % V;
        targets.push_back(t % 5 == 3 ? -1 : static_cast<std::int32_t>(word));
    }
    return targets;
}

struct Expected {
    Values loss;
    Values d_x;
    Values d_w;
    Values d_norm_weight;
    Values d_norm_bias;
};

struct Head {
    Head(Queue& on, InputKind f, DType compute, Sizes sizes)
        : queue(on),
          kind(f),
          dtype(compute),
          T(sizes.T),
          V(sizes.V),
          C(sizes.C),
          targets(some_targets(T, V)),
          x(random_tensor(compute, {T, C}, 1, 1, 0.25)),
          master(random_tensor(kF32, {V, C}, 2, 0.5)),
          norm_weight(random_tensor(kF32, {C}, 3, 0.25, 1)),
          norm_bias(random_tensor(kF32, {C}, 4, 0.25)),
          mean(nan_tensor(kF32, {T})),
          inverse(nan_tensor(kF32, {T})),
          targets_T(int_tensor(targets)),
          weights_T(random_tensor(kF32, {T}, 5, 0.1, 1)),
          prepared(byte_tensor(kernels::linear_prepared_bytes(on, compute, V, C))),
          workspace(byte_tensor(kernels::head_loss_workspace_bytes(on, compute, T, V, C))),
          loss(nan_tensor(kF32, {T})),
          d_x(nan_tensor(compute, {T, C})),
          d_w(random_tensor(kF32, {V, C}, 6)),
          d_norm_weight(random_tensor(kF32, {C}, 7)),
          d_norm_bias(random_tensor(kF32, {C}, 8)) {
        kernels::linear_prepare(queue, master, weight());
    }

    kernels::LinearWeight weight() {
        return {.prepared = prepared, .dtype = dtype, .N = V, .K = C};
    }
    kernels::HeadLoss evaluation() {
        return {.input = {.kind = kind,
                          .x = x,
                          .norm_weight_K = norm_weight,
                          .norm_bias_K = norm_bias,
                          .mean_T = mean,
                          .inverse_rms_T = inverse,
                          .epsilon = static_cast<float>(kNormEpsilon)},
                .weight = weight(),
                .targets_T = targets_T,
                .weights_T = weights_T,
                .loss_T = loss,
                .workspace = workspace};
    }
    kernels::HeadLoss training() {
        kernels::HeadLoss args = evaluation();
        args.d_x_TC = d_x;
        args.d_w_VC = d_w;
        args.d_norm_weight_C = d_norm_weight;
        args.d_norm_bias_C = d_norm_bias;
        return args;
    }
    bool guards_intact() const {
        return workspace.guards_intact() && loss.guards_intact() && d_x.guards_intact() &&
               d_w.guards_intact() && d_norm_weight.guards_intact() &&
               d_norm_bias.guards_intact() && mean.guards_intact() && inverse.guards_intact();
    }

    // Before any call: the gradients that accumulate are part of the result.
    Expected expected() const {
        const Values gain = norm_weight.values();
        const bool is_plain = kind == InputKind::kPlain;
        const Values f =
            is_plain ? x.values()
            : kind == InputKind::kRmsNorm
                ? reference::rmsnorm(x.values(), gain, kNormEpsilon).y
                : reference::layernorm(x.values(), gain, norm_bias.values(), kNormEpsilon).y;
        const Values w = value_tensor(dtype, {V, C}, master.values()).values();
        const auto end =
            reference::cross_entropy(reference::linear(f, w, V, C), V, targets, weights_T.values());
        const Values d_f = reference::linear_backward_input(end.d_logits, w, V, C);
        const auto gradients =
            is_plain ? reference::NormGradients{.d_x = d_f}
            : kind == InputKind::kRmsNorm
                ? reference::rmsnorm_backward(d_f, x.values(), gain, kNormEpsilon)
                : reference::layernorm_backward(d_f, x.values(), gain, kNormEpsilon);
        return {.loss = end.loss,
                .d_x = gradients.d_x,
                .d_w = sum(d_w.values(), reference::linear_backward_weight(end.d_logits, f, V, C)),
                .d_norm_weight = gradients.d_weight,
                .d_norm_bias = gradients.d_bias};
    }

    Queue& queue;
    InputKind kind;
    DType dtype;
    std::int64_t T;
    std::int64_t V;
    std::int64_t C;
    std::vector<std::int32_t> targets;
    TestTensor x;
    TestTensor master;
    TestTensor norm_weight;
    TestTensor norm_bias;
    TestTensor mean;
    TestTensor inverse;
    TestTensor targets_T;
    TestTensor weights_T;
    TestTensor prepared;
    TestTensor workspace;
    TestTensor loss;
    TestTensor d_x;
    TestTensor d_w;
    TestTensor d_norm_weight;
    TestTensor d_norm_bias;
};

// The last has more than one block of rows.
constexpr Sizes kSizes[] = {{0, 31, 7},   {1, 257, 31},   {31, 2, 7},
                            {33, 31, 33}, {257, 257, 31}, {1100, 31, 7}};
constexpr InputKind kKinds[] = {InputKind::kPlain, InputKind::kRmsNorm, InputKind::kLayerNorm};

// Norm-wise. An error e of a logit changes its softmax by e times; logits are sums of C products,
// gradients sums of V or T more. In bf16, f(x) and the gradient of the logits are rounded once.
double tolerance(DType dtype, const Head& head) {
    const double logit = dtype == DType::kBFloat16 ? epsilon(dtype) : 0;
    const double terms = static_cast<double>(head.C + head.V + head.T + 32);
    // The largest logits are about as many standard deviations of sqrt(C) / 2 from zero.
    const double spread = std::sqrt(static_cast<double>(head.C));
    return spread * (logit + epsilon(kF32) * terms);
}

template <class Body>
void for_each_head(Body body) {
    TestQueue queue(2);
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        if (!kernels::supports_dtype(queue, dtype)) {
            continue;
        }
        for (const InputKind kind : kKinds) {
            for (const Sizes& sizes : kSizes) {
                CAPTURE(name(dtype), static_cast<int>(kind), sizes.T, sizes.V, sizes.C);
                Head head(queue, kind, dtype, sizes);
                body(head);
            }
        }
    }
}

}  // namespace

TEST_CASE("head_loss matches its parts in double", "[unit][kernels]") {
    for_each_head([](Head& head) {
        const Expected expected = head.expected();
        const Values norm_weight_before = head.d_norm_weight.values();
        const Values norm_bias_before = head.d_norm_bias.values();
        kernels::head_loss(head.queue, head.training());
        const double limit = tolerance(head.dtype, head);
        CHECK(relative_error(head.loss, expected.loss) <= limit);
        CHECK(relative_error(head.d_x, expected.d_x) <= limit);
        CHECK(relative_error(head.d_w, expected.d_w) <= limit);
        if (head.kind != InputKind::kPlain) {
            CHECK(relative_error(head.d_norm_weight,
                                 sum(norm_weight_before, expected.d_norm_weight)) <= limit);
        }
        if (head.kind == InputKind::kLayerNorm) {
            CHECK(relative_error(head.d_norm_bias, sum(norm_bias_before, expected.d_norm_bias)) <=
                  limit);
        }
        // Masked tokens contribute nothing at all.
        const Values loss = head.loss.values();
        const Values d_x = head.d_x.values();
        for (std::size_t t = 3; t < loss.size(); t += 5) {
            const auto row = d_x.begin() + static_cast<std::ptrdiff_t>(t) * head.C;
            CHECK(loss[t] == 0);
            CHECK(std::all_of(row, row + head.C, [](double value) { return value == 0; }));
        }
        CHECK(head.guards_intact());
    });
}

TEST_CASE("head_loss without gradients gives the same losses", "[unit][kernels]") {
    for_each_head([](Head& head) {
        kernels::head_loss(head.queue, head.training());
        TestTensor loss = nan_tensor(kF32, {head.T});
        kernels::HeadLoss args = head.evaluation();
        args.loss_T = loss;
        args.weights_T = {};
        kernels::head_loss(head.queue, args);
        CHECK(same_bits(loss, head.loss));
        CHECK(head.guards_intact());
    });
}

TEST_CASE("head_loss does not depend on the number of threads", "[unit][kernels]") {
    TestQueue one(1);
    TestQueue three(3);
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        if (!kernels::supports_dtype(one, dtype)) {
            continue;
        }
        CAPTURE(name(dtype));
        Head a(one, InputKind::kLayerNorm, dtype, {1100, 257, 31});
        Head b(three, InputKind::kLayerNorm, dtype, {1100, 257, 31});
        kernels::head_loss(one, a.training());
        kernels::head_loss(three, b.training());
        CHECK(same_bits(a.loss, b.loss));
        CHECK(same_bits(a.d_x, b.d_x));
        CHECK(same_bits(a.d_w, b.d_w));
        CHECK(same_bits(a.d_norm_weight, b.d_norm_weight));
        CHECK(same_bits(a.d_norm_bias, b.d_norm_bias));
    }
}

TEST_CASE("the comparison of head_loss notices one wrong target", "[unit][kernels]") {
    TestQueue queue(1);
    Head head(queue, InputKind::kRmsNorm, kF32, {257, 31, 33});
    const Expected expected = head.expected();
    head.targets_T.set(256, head.targets[256] == 0 ? 1 : head.targets[256] - 1);
    kernels::head_loss(queue, head.training());
    const double limit = tolerance(kF32, head);
    CHECK_FALSE(relative_error(head.loss, expected.loss) <= limit);
    CHECK_FALSE(relative_error(head.d_x, expected.d_x) <= limit);
    CHECK_FALSE(relative_error(head.d_w, expected.d_w) <= limit);
}

TEST_CASE("head_loss refuses what does not fit together", "[unit][kernels]") {
    TestQueue queue(1);
    Head head(queue, InputKind::kRmsNorm, kF32, {5, 7, 3});
    kernels::HeadLoss args = head.training();
    SECTION("an activation in front") {
        args.input.kind = InputKind::kGelu;
    }
    SECTION("a missing gradient") {
        args.d_norm_weight_C = {};
    }
    SECTION("too few targets") {
        args.targets_T = head.targets_T.tensor().rows(0, 4);
    }
    SECTION("a workspace that is too small") {
        args.workspace = head.workspace.tensor().rows(0, 64);
    }
    CHECK_THROWS_AS(kernels::head_loss(queue, args), ShapeError);
}
