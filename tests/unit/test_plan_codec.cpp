// Plans as bytes and as JSON: everything comes back, and damaged bytes never do.
#include "tests/support/plan_problems.hpp"
#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "core/base/errors.hpp"
#include "core/plan/codec.hpp"
#include "core/plan/json.hpp"
#include "core/plan/planner.hpp"
#include "core/plan/validate.hpp"

using namespace dcp;
using namespace dcp::plan;
using Catch::Contains;
using Bytes = std::vector<std::byte>;

namespace {

PlanScope scope_of(const Problem& problem) {
    return {problem.topology.ranks, static_cast<std::int64_t>(problem.sequences.size())};
}

Plan random_plan(const Problem& problem, std::uint64_t seed) {
    return make_planner("random", {.seed = seed})->plan(problem);
}

// Puts a right checksum under changed bytes, so that what lies behind it is tested.
void sign(Bytes& bytes) {
    std::string body;
    for (std::size_t i = 0; i + 8 < bytes.size(); ++i) {
        body.push_back(std::to_integer<char>(bytes[i]));
    }
    const std::uint64_t hash = hash_name(body);
    for (std::size_t i = 0; i < 8; ++i) {
        bytes[bytes.size() - 8 + i] = static_cast<std::byte>(hash >> (8 * i));
    }
}

std::string refusal(const Bytes& bytes, const PlanScope& scope) {
    try {
        parse_plan(bytes, scope);
    } catch (const PlanError& error) {
        return error.what();
    }
    return "accepted";
}

}  // namespace

TEST_CASE("plan bytes come back as the same plan", "[unit][plan]") {
    for (std::uint64_t seed = 0; seed < 1000; ++seed) {
        const Problem problem = test::random_problem(seed, 20, 30);
        Plan plan = random_plan(problem, seed);
        plan.lower_bound_seconds = plan.makespan_seconds / 3;
        const Bytes bytes = serialize(plan, scope_of(problem));
        const Plan back = parse_plan(bytes, scope_of(problem));
        REQUIRE(back == plan);
        REQUIRE(serialize(back, scope_of(problem)) == bytes);
    }
}

TEST_CASE("plan bytes are compact", "[unit][plan]") {
    // 64 ranks, 512 sequences in order: neighbours cost two bytes a group, a sequence one or two.
    std::vector<std::int64_t> lengths(512, 100);
    const Problem problem = test::problem_of(lengths, 64, 8);
    const Plan plan = make_planner("bucket")->plan(problem);
    const Bytes bytes = serialize(plan, scope_of(problem));
    CHECK(bytes.size() < 64 + 34 * plan.steps.size() + 2 * 512);
}

TEST_CASE("plans differ, hashes differ", "[unit][plan]") {
    const Problem problem = test::problem_of({30, 20, 10}, 4, 2);
    Plan plan = random_plan(problem, 1);
    const Bytes bytes = serialize(plan, scope_of(problem));
    CHECK(plan_hash(bytes) == plan_hash(serialize(plan, scope_of(problem))));
    ++plan.steps[0].recompute_layers;
    CHECK(plan_hash(bytes) != plan_hash(serialize(plan, scope_of(problem))));
}

TEST_CASE("damaged plan bytes are refused", "[unit][plan]") {
    const Problem problem = test::problem_of({30, 20, 10, 40, 50}, 6, 3);
    const PlanScope scope = scope_of(problem);
    const Bytes good = serialize(random_plan(problem, 3), scope);

    CHECK_THAT(refusal({}, scope), Contains("0 bytes are no plan"));
    for (std::size_t length = 0; length < good.size(); ++length) {
        CHECK(refusal({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length)}, scope) !=
              "accepted");
    }
    for (std::size_t i = 0; i < good.size(); ++i) {
        for (int bit = 0; bit < 8; ++bit) {
            Bytes bytes = good;
            bytes[i] ^= static_cast<std::byte>(1 << bit);
            CHECK(refusal(bytes, scope) != "accepted");
        }
    }
    Bytes other = good;
    other[4] = std::byte{2};
    sign(other);
    CHECK_THAT(refusal(other, scope), Contains("version 2, this program reads version 1"));
    other = good;
    other[0] = std::byte{'X'};
    sign(other);
    CHECK_THAT(refusal(other, scope), Contains("not a plan"));
    other = good;
    other.insert(other.end() - 8, std::byte{0});
    sign(other);
    CHECK_THAT(refusal(other, scope), Contains("bytes left over"));
    CHECK_THAT(refusal(good, {7, 5}), Contains("made for 6 ranks and 5 sequences, expected 7"));
    CHECK_THAT(refusal(good, {6, 4}), Contains("expected 6 and 4"));
}

TEST_CASE("no signed garbage is trusted: what is accepted has one encoding", "[unit][plan]") {
    int accepted = 0;
    for (std::uint64_t seed = 0; seed < 20'000; ++seed) {
        test::Dice dice(seed);
        const Problem problem = test::random_problem(seed % 50, 9, 12);
        const PlanScope scope = scope_of(problem);
        Bytes bytes = serialize(random_plan(problem, seed), scope);
        const auto size = static_cast<std::int64_t>(bytes.size());
        for (std::int64_t changes = dice.between(1, 4); changes > 0; --changes) {
            const auto at = static_cast<std::size_t>(dice.between(5, size - 9));
            bytes[at] = static_cast<std::byte>(dice.between(0, 255));
        }
        if (dice.chance(0.2)) {
            bytes.erase(bytes.begin() + dice.between(5, size - 9));
        }
        sign(bytes);
        if (refusal(bytes, scope) == "accepted") {
            ++accepted;
            const Plan plan = parse_plan(bytes, scope);
            REQUIRE(serialize(plan, scope) == bytes);
            for (const Step& step : plan.steps) {
                for (const int rank : step.world_ranks) {
                    REQUIRE((rank >= 0 && rank < scope.ranks));
                }
                for (const std::int32_t sequence : step.sequences) {
                    REQUIRE((sequence >= 0 && sequence < scope.sequences));
                }
            }
        }
    }
    CHECK(accepted > 100);  // the changed numbers that are possible numbers
    CHECK(accepted < 15'000);
}

TEST_CASE("JSON holds every pinned key and comes back as the same plan", "[unit][plan]") {
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        const Problem problem = test::random_problem(seed, 16, 20);
        const Plan plan = random_plan(problem, seed);
        const PlanLabel label{
            .planner = "random", .cost = "round", .batch = 7, .seed = seed, .plan_seconds = 0.25};
        const std::string line = to_json(problem, plan, label);
        CHECK(line.find('\n') == std::string::npos);
        const PlanFile file = from_json(line);
        REQUIRE(file.plan == plan);
        CHECK(file.ranks == problem.topology.ranks);
        CHECK(file.ranks_per_node == problem.topology.ranks_per_node);
        CHECK(file.label.planner == "random");
        CHECK(file.label.seed == seed);
        CHECK(file.label.plan_seconds == 0.25);
        REQUIRE(file.sequences.size() == problem.sequences.size());
        for (std::size_t i = 0; i < file.sequences.size(); ++i) {
            CHECK(file.sequences[i].tokens == problem.sequences[i].tokens);
        }
    }
    const Problem problem = test::problem_of({30}, 2, 2);
    const Plan plan =
        predicted(problem, {{.world_ranks = {0, 1}, .sequences = {0}, .strategy = {2, 1}}});
    CHECK_THAT(to_json(problem, plan, {.planner = "p", .cost = "c"}),
               Contains(R"({"format":"dcp-plan-1","planner":"p","ranks":2,"ranks_per_node":2,)"
                        R"("cost":"c","batch":0,"seed":0,"sequences":[30],"steps":[{"ranks":[0,1],)"
                        R"("sequences":[0],"strategy":{"ulysses":2,"ring":1},)"
                        R"("recompute_layers":0,"start_seconds":0.0,"seconds":)"));
}

TEST_CASE("JSON that is no plan is refused by key", "[unit][plan]") {
    const Problem problem = test::problem_of({30, 40}, 2, 2);
    const Plan plan = random_plan(problem, 0);
    const std::string good = to_json(problem, plan, {.planner = "p", .cost = "c"});
    const auto message = [&](const std::string& from, const std::string& to) -> std::string {
        std::string line = good;
        const std::size_t at = line.find(from);
        REQUIRE(at != std::string::npos);
        line.replace(at, from.size(), to);
        try {
            from_json(line);
        } catch (const PlanError& error) {
            return error.what();
        }
        return "accepted";
    };
    CHECK(message("\"p\"", "\"q\"") == "accepted");
    CHECK_THAT(message("}", ""), Contains("not JSON"));
    CHECK_THAT(message("dcp-plan-1", "dcp-plan-9"), Contains("'dcp-plan-9' is not the format"));
    CHECK_THAT(message("\"planner\"", "\"x\""), Contains("'planner' is missing or not text"));
    CHECK_THAT(message("\"ranks\":2", "\"ranks\":2.5"), Contains("'ranks' is missing or not"));
    for (const char* key : {"ranks", "ranks_per_node"}) {
        const std::string two = fmt::format("\"{}\":2", key);
        for (const char* number :
             {"4294967296", "1000000000", "1048577", "0", "-1", "18446744073709551615"}) {
            CHECK_THAT(message(two, fmt::format("\"{}\":{}", key, number)),
                       Contains(fmt::format(
                           "'{}' is missing or not a whole number from 1 to 1048576", key)));
        }
        CHECK(message(two, fmt::format("\"{}\":1048576", key)) == "accepted");
    }
    CHECK_THAT(message("\"seed\":0", "\"seed\":-1"), Contains("'seed'"));
    CHECK_THAT(message("[30,40]", "[30,\"40\"]"), Contains("'sequences'"));
    CHECK_THAT(message("\"steps\":[", "\"steps\":[3,"), Contains("'ranks' is missing"));
    CHECK_THAT(message("\"makespan_seconds\":", "\"makespan_seconds\":\"1\",\"y\":"),
               Contains("'makespan_seconds' is missing or not a number"));
}
