// The closed-form cost model against numbers worked out by hand, and the reader of its files.
#include <cmath>
#include <fstream>
#include <sstream>

#include "tests/support/plan_problems.hpp"
#include <catch2/catch.hpp>

#include "core/base/errors.hpp"
#include "core/config/cost_file.hpp"
#include "core/plan/closed_form.hpp"

using namespace dcp;
using namespace dcp::plan;

namespace {

constexpr double kRounding = 1e-14;  // a handful of operations in double

// Two sequences of 300 and 100 tokens.
const Load kLoad{400, 300.0 * 300 + 100.0 * 100};

std::string file_text(const std::string& path) {
    std::ifstream file(std::string(DCP_SOURCE_DIR) + "/" + path);
    std::ostringstream text;
    text << file.rdbuf();
    REQUIRE(!text.str().empty());
    return text.str();
}

// The text with one piece replaced.
std::string changed(std::string text, const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("closed form: one rank computes and does not communicate", "[unit][plan]") {
    const ClosedForm cost(test::round_constants());
    const StepCost alone = cost.cost(kLoad, {1, 1}, 0);
    CHECK(alone.fixed_seconds == 0.1);
    CHECK(alone.compute_seconds == Approx(0.4 + 0.1).epsilon(kRounding));
    CHECK(alone.communication_seconds == 0);
    CHECK(alone.seconds() == Approx(0.6).epsilon(kRounding));
    CHECK(alone.peak_bytes == Approx(10'000 + 400 * 1000).epsilon(kRounding));
}

TEST_CASE("closed form: four ranks with three of four layers recomputed", "[unit][plan]") {
    const ClosedForm cost(test::round_constants());
    const double again = 1 + 0.25 * 3 / 4;
    for (const Strategy strategy : {Strategy{4, 1}, Strategy{2, 2}, Strategy{1, 4}}) {
        const StepCost step = cost.cost(kLoad, strategy, 3);
        CHECK(step.compute_seconds == Approx(0.5 / 4 * again).epsilon(kRounding));
        CHECK(step.communication_seconds ==
              Approx((100.0 * 400 / (4 * 5e5) + 0.03) * again).epsilon(kRounding));
        // One layer kept, three checkpoints, and the layer that is computed again.
        CHECK(step.peak_bytes ==
              Approx(10'000 + 400 / 4.0 * (250 + 3 * 50 + 250)).epsilon(kRounding));
    }
}

TEST_CASE("closed form: bandwidth between degrees is linear in logarithms, latency in the degree",
          "[unit][plan]") {
    const ClosedForm cost(test::round_constants());
    CHECK(cost.bandwidth(2) == 1e6);
    CHECK(cost.bandwidth(8) == 1e5);
    CHECK(cost.bandwidth(1) == 1e6);
    CHECK(cost.bandwidth(100) == 1e5);
    const double share = std::log(3.0 / 2) / std::log(2.0);
    CHECK(cost.bandwidth(3) == Approx(1e6 * std::pow(0.5, share)).epsilon(kRounding));
    CHECK(cost.latency(3) == Approx(0.02).epsilon(kRounding));
    CHECK(cost.latency(2) == 0.01);
    CHECK(cost.latency(64) == 0.03);
}

TEST_CASE("closed form: coefficients say the same as costs", "[unit][plan]") {
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        const Problem problem = test::random_problem(seed, 20, 1);
        test::Dice dice(seed + 1000);
        const Load load{dice.between(1, 100'000), 1e9 * dice.uniform()};
        for (const int degree : problem.degrees) {
            const int depth = static_cast<int>(dice.between(0, problem.cost->layers()));
            const StepCost cost = problem.cost->cost(load, {degree, 1}, depth);
            const LinearCost line = problem.cost->linear(degree, depth);
            CHECK(line.seconds(load) == Approx(cost.seconds()).epsilon(kRounding));
            CHECK(line.bytes(load) == Approx(cost.peak_bytes).epsilon(kRounding));
        }
    }
}

TEST_CASE("closed form: constants without meaning are refused", "[unit][plan]") {
    const auto refuses = [](auto spoil) {
        ClosedFormConstants constants = test::round_constants();
        spoil(constants);
        CHECK_THROWS_AS(ClosedForm(constants), PlanError);
    };
    refuses([](auto& c) { c.layers = 0; });
    refuses([](auto& c) { c.token_seconds = -1; });
    refuses([](auto& c) { c.forward_share = std::nan(""); });
    refuses([](auto& c) { c.bandwidths.clear(); });
    refuses([](auto& c) { c.bandwidths[3] = 0; });
    refuses([](auto& c) { c.latencies[3] = -1; });
    refuses([](auto& c) { c.static_bytes = INFINITY; });
    refuses([](auto& c) { c.fixed_seconds = c.token_seconds = c.squared_token_seconds = 0; });
}

TEST_CASE("cost file: the constants of FlexSP are read as they stand", "[unit][plan]") {
    const auto cost =
        config::read_cost_file(std::string(DCP_SOURCE_DIR) + "/configs/costs/flexsp-gpt-7b.yaml");
    CHECK(cost.name == "flexsp-gpt-7b");
    CHECK(cost.layers == 32);
    CHECK(cost.degrees == std::vector<int>{1, 2, 4, 8, 16, 32, 64});
    CHECK(cost.ranks_per_node == 8);
    CHECK_FALSE(cost.recompute);
    CHECK(cost.fixed == 0.62936);
    CHECK(cost.per_token == 0.00018396);
    CHECK(cost.per_token_squared == 5.128e-9);
    CHECK(cost.forward_share == 0.333333333);
    CHECK(cost.bytes_per_token == 2097152);
    CHECK(cost.bandwidth.at(16) == 1.08318e10);
    CHECK(cost.bandwidth.size() == 6);
    CHECK(cost.latency.empty());
    CHECK(cost.budget == 3.0538e10);
    CHECK(cost.static_bytes == 1.675e9);
    CHECK(cost.layer_bytes_per_token == 146800.64);
    CHECK(cost.checkpoint_bytes_per_token == 8192);
    for (const char* other : {"13b", "30b"}) {
        CHECK(config::read_cost_file(std::string(DCP_SOURCE_DIR) + "/configs/costs/flexsp-gpt-" +
                                     other + ".yaml")
                  .budget > 3e10);
    }
}

TEST_CASE("cost file: mistakes are named with file and line", "[unit][plan]") {
    const std::string text = file_text("configs/costs/flexsp-gpt-7b.yaml");
    const auto message = [&](const std::string& from, const std::string& to) -> std::string {
        try {
            config::parse_cost_file(changed(text, from, to), "x.yaml");
        } catch (const ConfigError& error) {
            return error.what();
        }
        return "accepted";
    };
    using Catch::Contains;
    CHECK_THAT(message("dcp-cost-1\n", "dcp-cost-2\n"), Contains("format is 'dcp-cost-2'"));
    CHECK_THAT(message("layers: 32", "layers: 0"), Contains("x.yaml:7: layers must be"));
    CHECK_THAT(message("layers: 32", "layers: 32\nlayers: 32"), Contains("repeated key 'layers'"));
    CHECK_THAT(message("layers: 32", "layer: 32"), Contains("'layers' is missing"));
    CHECK_THAT(message("layers: 32", "layers: 32\nfoo: 1"), Contains("unknown key 'foo'"));
    CHECK_THAT(message("budget: 3.0538e+10", "budget: 3_000_000"), Contains("memory.budget must"));
    CHECK_THAT(message("budget: 3.0538e+10", "budget: '3e10'"), Contains("memory.budget must"));
    for (const char* none : {"0", "-1", "nan", ".inf", "1e400"}) {
        CHECK_THAT(message("budget: 3.0538e+10", std::string("budget: ") + none),
                   Contains("x.yaml:21: memory.budget must be a number above 0"));
    }
    CHECK_THAT(message("per_token: 0.0", "per_token: -0.0"), Contains("time.per_token must"));
    CHECK_THAT(message("{2: 1.25347e+11,", "{2: 0,"), Contains("communication.bandwidth must"));
    CHECK_THAT(message("{2: 1.25347e+11,", "{2: 1, 2: 2,"), Contains("names degree 2 twice"));
    CHECK_THAT(message("[1, 2, 4, 8,", "[1, 4, 2, 8,"), Contains("degrees must be 'any'"));
    CHECK_THAT(message("recompute: false", "recompute: maybe"), Contains("recompute must be"));
    CHECK_THAT(message("  bandwidth:", "  bandwith:"), Contains("unknown key"));
    CHECK_THAT(message("time:", "time: {"), Contains("not valid YAML"));
    CHECK(message("[1, 2, 4, 8, 16, 32, 64]", "any") == "accepted");
    CHECK_THROWS_AS(config::read_cost_file("/nowhere/cost.yaml"), ConfigError);
}
