// The configuration of `dcp simulate`: what it reads, and every message about what it does not.
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "core/base/errors.hpp"
#include "core/config/simulate_file.hpp"

using namespace dcp;

namespace {

const std::string kGood = R"(name: one
cluster: {cost: c.yaml, ranks: [8, 16]}
data: {distribution: short}
batch: {sequences_per_rank: 8}
run: {iterations: 5, seed: 3}
)";

std::string message_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
    try {
        config::parse_simulate_file(text, "s.yaml", overrides);
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "accepted";
}

std::string replaced(const std::string& what, const std::string& with) {
    std::string text = kGood;
    text.replace(text.find(what), what.size(), with);
    return text;
}

}  // namespace

TEST_CASE("a simulation file is read", "[unit]") {
    const auto file = config::parse_simulate_file(
        kGood +
            "planner: {names: [bucket, dcp], degrees: [1, 2], recompute: 'yes', effort: fast, "
            "plan_seconds: 0.5}\n"
            "iteration: {reduce_bytes: 1e9, reduce_bandwidth: 1e10, optimizer_seconds: 0.1}\n"
            "noise: {step: 0.05}\nstragglers: {share: 0.1, slowdown: 2, known: true}\n",
        "s.yaml");
    CHECK(file.name == "one");
    CHECK(file.cluster.cost == "c.yaml");
    CHECK(file.cluster.ranks == std::vector<std::int64_t>{8, 16});
    CHECK(file.data.distribution == "short");
    CHECK(file.batch.sequences_per_rank == 8);
    CHECK_FALSE(file.batch.tokens.has_value());
    CHECK(file.run.iterations == 5);
    CHECK(file.run.seed == 3);
    CHECK(file.planner.names == std::vector<std::string>{"bucket", "dcp"});
    CHECK(file.planner.degrees == "1,2");
    CHECK(file.planner.recompute == "yes");
    CHECK(file.planner.plan_seconds == 0.5);
    CHECK(file.iteration.reduce_bytes == 1e9);
    CHECK(file.noise.step == 0.05);
    CHECK(file.stragglers.known);
    CHECK(file.stragglers.slowdown == 2);
}

TEST_CASE("what is left out has its default, and the command line wins", "[unit]") {
    const auto file = config::parse_simulate_file(kGood, "s.yaml",
                                                  {"cluster.ranks=64", "planner.names=[bucket]"});
    CHECK(file.cluster.ranks == std::vector<std::int64_t>{64});
    CHECK(file.planner.names == std::vector<std::string>{"bucket"});
    CHECK(file.planner.effort == "background");
    CHECK(file.planner.plan_seconds < 0);
    CHECK(file.stragglers.slowdown == 1);
    CHECK_FALSE(file.cluster.ranks_per_node.has_value());
}

TEST_CASE("what is wrong with a simulation file is said", "[unit]") {
    CHECK(message_of(replaced("seed: 3", "sead: 3"))
              .starts_with("s.yaml:5: unknown key 'run.sead'; known: batch.mode, "));
    CHECK(message_of(replaced("[8, 16]", "[16, 8]")) ==
          "s.yaml:2: cluster.ranks is [16, 8], expected a whole number from 1 to 1048576, or a "
          "rising list of them");
    CHECK(
        message_of(replaced("sequences_per_rank: 8", "sequences_per_rank: 0")) ==
        "s.yaml:4: batch.sequences_per_rank is 0, expected a whole number from 1 to 4398046511104");
    CHECK(message_of(replaced("[8, 16]", "8, ranks_per_node: 4294967296")) ==
          "s.yaml:2: cluster.ranks_per_node is 4294967296, expected a whole number from 1 to "
          "1048576");
    CHECK(message_of(replaced("sequences_per_rank: 8", "sequences: 8, tokens: 9")) ==
          "s.yaml: batch.sequences and batch.tokens contradict each other; keep one");
    CHECK(message_of(replaced("iterations: 5", "epochs: 1"))
              .find("run.epochs: a distribution has no end") != std::string::npos);
    CHECK(message_of(replaced("data: {distribution: short}\n", "")) ==
          "s.yaml: data.distribution, data.lengths or data.dataset is missing");
    CHECK(message_of(replaced("cost: c.yaml, ", "")) == "s.yaml: cluster.cost is missing");
    for (const char* seed : {"-1", "1.5", "1000000000000000001", "99999999999999999999999"}) {
        CHECK(message_of(replaced("seed: 3", std::string("seed: ") + seed)) ==
              std::string("s.yaml:5: run.seed is ") + seed +
                  ", expected a whole number from 0 to 1000000000000000000");
    }
    // What a run may have, so that a simulation can draw the same.
    CHECK(config::parse_simulate_file(replaced("seed: 3", "seed: 1000000000000000000"), "s.yaml")
              .run.seed == 1'000'000'000'000'000'000);
    CHECK(message_of(kGood + "noise: {step: 2}\n") ==
          "s.yaml:6: noise.step is 2, expected a number from 0 to 1");
    CHECK(message_of(kGood + "planner: {effort: slow}\n") ==
          "s.yaml:6: planner.effort is 'slow', expected fast or background");
    CHECK(message_of(kGood + "planner: {degrees: some}\n")
              .find("planner.degrees is 'some', expected any, pow2 or a rising list") !=
          std::string::npos);
    CHECK(message_of(kGood + "iteration: {reduce_bytes: 1}\n") ==
          "s.yaml: iteration.reduce_bandwidth is missing: iteration.reduce_bytes needs it");
    CHECK(message_of(kGood + "stragglers: {known: true, moving: true}\n")
              .find("contradict each other") != std::string::npos);
    CHECK(message_of(kGood + "planner: {step_mode: rounds}\n", {"batch.mode=elastic"})
              .find("batch.mode elastic needs planner.step_mode independent") != std::string::npos);
    CHECK(message_of(kGood + "name: two\n").find("repeated key 'name'") != std::string::npos);
    CHECK(message_of(kGood, {"run.sead=1"}).starts_with("--set: unknown key 'run.sead'"));
}
