#include "tests/bench/plan_cases.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "apps/dcp/cost_choice.hpp"
#include "apps/dcp/plan_input.hpp"

namespace dcp::bench {

namespace {

// Most tokens of one sequence that some allowed group of the problem holds, in whole thousands of
// 1024: a round number is easier to give to `dcp plan`.
std::int64_t most_tokens(const plan::Problem& problem, std::int64_t wanted) {
    constexpr std::int64_t kStep = 1024;
    const int widest = problem.degrees.back();
    while (wanted > kStep) {
        const plan::Load load = plan::load_of(wanted);
        if (plan::fits(problem, load, widest, plan::leanest_depth(problem, load, widest))) {
            break;
        }
        wanted = (wanted - 1) / kStep * kStep;
    }
    return wanted;
}

}  // namespace

std::string Case::name() const {
    return fmt::format("{} x {}{}", ranks, sequences, recompute ? " recompute" : "");
}

std::vector<Case> gap_cases(const std::string& lengths_name) {
    std::optional<Target> target;
    if (lengths_name.starts_with("wikipedia")) {
        target = Target{1.010, 1.02};
    } else if (lengths_name.starts_with("wlb")) {
        target = Target{1.015, 1.03};
    }
    std::vector<Case> cases;
    for (const bool any : {false, true}) {
        cases.push_back({.ranks = 64, .sequences = 512, .any_degree = any, .target = target});
        cases.push_back({.ranks = 64,
                         .sequences = 512,
                         .any_degree = any,
                         .recompute = true,
                         .target = Target{1.015, 1.03}});
        cases.push_back(
            {.ranks = 64, .sequences = 2048, .any_degree = any, .target = Target{1.015, 1.02}});
        for (const int ranks : {8, 32}) {
            for (const int share : {8, 16}) {
                cases.push_back({.ranks = ranks,
                                 .sequences = ranks * share,
                                 .any_degree = any,
                                 .target = Target{1.01, 1.03}});
            }
        }
        for (const int ranks : {256, 1024}) {
            cases.push_back({.ranks = ranks,
                             .sequences = ranks * 16,
                             .any_degree = any,
                             .target = Target{1.02, 1.03}});
        }
    }
    return cases;
}

std::vector<Case> growth_cases() {
    std::vector<Case> cases;
    for (int ranks = 8; ranks <= 1024; ranks *= 2) {
        for (const int share : {8, 16}) {
            cases.push_back({.ranks = ranks, .sequences = ranks * share, .any_degree = true});
        }
    }
    return cases;
}

std::string Source::name() const {
    return std::filesystem::path(lengths).stem().string();
}

std::vector<plan::Problem> problems_of(const Source& source, const Case& what, int batches) {
    const CostChoice choice(source.cost, source.model);
    plan::Problem problem =
        train::planning_problem(choice.cost(what.ranks, std::nullopt), what.ranks);
    problem.degrees =
        what.any_degree ? plan::any_degrees(what.ranks) : plan::power_of_two_degrees(what.ranks);
    problem.may_recompute = what.recompute;
    const auto drawn = plan_batches({.lengths = source.lengths,
                                     .batch_sequences = what.sequences,
                                     .batches = batches,
                                     .seed = source.seed,
                                     .max_tokens = most_tokens(problem, source.max_tokens)});
    std::vector<plan::Problem> problems;
    for (const std::vector<plan::Sequence>& sequences : drawn) {
        problems.push_back(problem);
        problems.back().sequences = sequences;
        choice.weigh(problems.back(), source.lengths);
    }
    return problems;
}

}  // namespace dcp::bench
