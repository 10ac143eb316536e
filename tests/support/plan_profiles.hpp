// Profiles for tests: of a layer with simple laws, and random ones with noise, dents and few
// points.
#pragma once

#include <memory>
#include <vector>

#include "tests/support/plan_problems.hpp"

#include "core/plan/measured_model.hpp"

namespace dcp::plan::test {

// Seconds of one layer: a + b T / p + c Q / p forward, twice that backward, and an exchange.
struct LayerLaw {
    double fixed = 1e-3;
    double token = 1e-5;
    double squared = 1e-8;
    double exchange = 2e-6;  // a token of the group, more than one rank

    ProfilePoint at(std::int64_t tokens, double squared_tokens, int degree, LinkClass link) const {
        const auto T = static_cast<double>(tokens);
        const double slow = link == LinkClass::kNetwork ? 4 : 1;
        const double forward = fixed + (token * T + squared * squared_tokens) / degree +
                               (degree > 1 ? slow * exchange * T / degree : 0);
        return {.tokens = tokens,
                .squared_tokens = squared_tokens,
                .strategy = {.ulysses = degree, .ring = 1},
                .link = link,
                .forward_seconds = forward,
                .backward_seconds = 2 * forward,
                .recompute_seconds = forward,
                .kept_bytes = 100 * T / degree,
                .checkpoint_bytes = 10 * T / degree,
                .working_bytes = 50 * T / degree};
    }
};

// Every token count as one sequence and as four.
inline Profile lawful_profile(const LayerLaw& law, int ranks, int ranks_per_node) {
    Profile profile{.name = "lawful",
                    .measured = {{"model", "law"}},
                    .layers = 3,
                    .ranks_per_node = ranks_per_node,
                    .budget_bytes = 1'000'000,
                    .replicated_bytes = 1000,
                    .sharded_bytes = 600,
                    .fixed_seconds = 0.01,
                    .token_seconds = 1e-6,
                    .token_bytes = 4,
                    .reduction_seconds = 0.02,
                    .optimizer_seconds = 0.01};
    for (int degree = 1; degree <= ranks; ++degree) {
        for (const std::int64_t tokens : {64, 256, 1024, 4096}) {
            const auto T = static_cast<double>(tokens);
            const LinkClass link = link_class(degree, ranks_per_node);
            profile.points.push_back(law.at(tokens, T * T, degree, link));
            profile.points.push_back(law.at(tokens, T * T / 4, degree, link));
        }
    }
    return profile;
}

inline Problem profile_problem(const Profile& profile, int ranks) {
    const auto model = std::make_shared<MeasuredModel>(profile, ranks, profile.ranks_per_node);
    Problem problem;
    problem.cost = model;
    problem.heads = profile.heads;
    problem.topology = {.ranks = ranks, .ranks_per_node = profile.ranks_per_node};
    problem.degrees = model->degrees();
    problem.memory_budget_bytes = profile.budget_bytes;
    problem.may_recompute = profile.may_recompute;
    return problem;
}

// Laws that bend both ways: every point is off by up to a third.
inline Problem random_profile_problem(std::uint64_t seed, int most_ranks, int most_sequences) {
    Dice dice(seed);
    const int ranks = static_cast<int>(dice.between(1, most_ranks));
    LayerLaw law;
    law.fixed = dice.chance(0.3) ? 0 : 1e-2 * dice.uniform();
    law.squared = dice.chance(0.3) ? 0 : 1e-7 * dice.uniform();
    Profile profile = lawful_profile(law, ranks, static_cast<int>(dice.between(1, ranks)));
    profile.fixed_seconds = dice.chance(0.3) ? 0 : 0.02 * dice.uniform();
    profile.may_recompute = dice.chance(0.5);
    for (ProfilePoint& point : profile.points) {
        point.forward_seconds *= 1 + 0.3 * dice.uniform();
        point.backward_seconds *= 1 + 0.3 * dice.uniform();
        point.kept_bytes *= 1 + 0.3 * dice.uniform();
    }
    Problem problem = profile_problem(profile, ranks);
    for (int rank = 0; dice.chance(0.4) && rank < ranks; ++rank) {
        problem.topology.speeds.resize(static_cast<std::size_t>(ranks), 1.0);
        problem.topology.speeds[static_cast<std::size_t>(rank)] = 0.4 + 1.2 * dice.uniform();
    }
    const std::int64_t longest = dice.skewed(6000);
    for (std::int64_t count = dice.between(1, most_sequences); count > 0; --count) {
        problem.sequences.push_back({.id = count, .tokens = dice.skewed(longest)});
    }
    double least = 1e300;
    for (const int degree : problem.degrees) {
        const Load load = load_of(problem.longest());
        least = std::min(
            least, cost_of(problem, load, degree, leanest_depth(problem, load, degree)).peak_bytes);
    }
    problem.memory_budget_bytes = least * (1 + (dice.chance(0.5) ? 0.2 : 2.0) * dice.uniform());
    return problem;
}

}  // namespace dcp::plan::test
