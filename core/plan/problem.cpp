#include "core/plan/problem.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "core/base/errors.hpp"
#include "core/base/units.hpp"

namespace dcp::plan {

namespace {

constexpr std::int64_t kMaxTokens = std::int64_t{1} << 40;  // a sum of 2^22 of them is still exact

void require(bool is_right, const std::string& message) {
    if (!is_right) {
        throw PlanError(message);
    }
}

// Every planner checks every sequence, so nothing is written before something is wrong.
void check_sequence(std::size_t index, const Sequence& sequence) {
    const std::int64_t tokens = sequence.tokens;
    const std::int64_t frames = sequence.frames;
    if (tokens < 1 || tokens > kMaxTokens) {
        throw PlanError(fmt::format("sequence {} has {} tokens", index, tokens));
    }
    if (frames < 0 || (frames > 0 && tokens % frames != 0)) {
        throw PlanError(fmt::format("sequence {}: its {} tokens are not {} equal frames", index,
                                    tokens, frames));
    }
    if (frames > 0 && !(sequence.squared_tokens > 0)) {
        throw PlanError(fmt::format("sequence {} has two dimensions but was not weighed", index));
    }
}

}  // namespace

std::int64_t Problem::longest() const {
    std::int64_t tokens = longest_tokens;
    for (const Sequence& sequence : sequences) {
        tokens = std::max(tokens, sequence.tokens);
    }
    return tokens;
}

std::vector<int> any_degrees(int ranks) {
    std::vector<int> degrees;
    for (int degree = 1; degree <= ranks; ++degree) {
        degrees.push_back(degree);
    }
    return degrees;
}

std::vector<int> power_of_two_degrees(int ranks) {
    std::vector<int> degrees;
    for (int degree = 1; degree <= ranks; degree *= 2) {
        degrees.push_back(degree);
    }
    return degrees;
}

void check_problem(const Problem& problem) {
    const Topology& topology = problem.topology;
    require(problem.cost != nullptr, "the problem has no cost model");
    require(topology.ranks >= 1 && topology.ranks_per_node >= 1 && topology.ranks <= kMostRanks &&
                topology.ranks_per_node <= kMostRanks,
            fmt::format("{} ranks on nodes of {}: both must be from 1 to {}", topology.ranks,
                        topology.ranks_per_node, kMostRanks));
    require(topology.speeds.empty() ||
                topology.speeds.size() == static_cast<std::size_t>(topology.ranks),
            fmt::format("{} rank speeds for {} ranks: every rank needs one", topology.speeds.size(),
                        topology.ranks));
    for (std::size_t rank = 0; rank < topology.speeds.size(); ++rank) {
        const std::string fault = speed_fault(static_cast<int>(rank), topology.speeds[rank]);
        require(fault.empty(), fault);
    }
    require(!problem.degrees.empty(),
            fmt::format("no SP degree is allowed on {} ranks", topology.ranks));
    int last = 0;
    for (const int degree : problem.degrees) {
        if (degree <= last || degree > topology.ranks) {
            throw PlanError(
                fmt::format("SP degree {}: degrees must rise and lie between 1 and {} ranks",
                            degree, topology.ranks));
        }
        last = degree;
    }
    Load all;
    for (std::size_t i = 0; i < problem.sequences.size(); ++i) {
        check_sequence(i, problem.sequences[i]);
        all += load_of(problem.sequences[i]);
    }
    for (const int degree : problem.degrees) {  // the largest micro-batch there could be
        const Strategy strategy = preferred_strategy(degree, problem.heads);
        const double seconds = problem.cost->cost(all, strategy, 0).seconds();
        require(
            !std::isnan(seconds) &&
                (std::isfinite(seconds) ||
                 !std::isfinite(problem.cost->cost({1, 1}, strategy, 0).seconds())),
            fmt::format("{} tokens on {} take {} seconds by the cost model '{}': its constants "
                        "are too large",
                        all.tokens, format_counted(degree, "rank"), seconds, problem.cost->name()));
    }
    require(std::isfinite(problem.memory_budget_bytes) && problem.memory_budget_bytes > 0,
            "the memory budget must be positive");
}

Load load_of(const Problem& problem, const std::vector<std::int32_t>& sequences) {
    Load load;
    for (const std::int32_t sequence : sequences) {
        load += load_of(problem.sequences[static_cast<std::size_t>(sequence)]);
    }
    return load;
}

void weigh(Problem& problem) {
    for (Sequence& sequence : problem.sequences) {
        sequence.squared_tokens = problem.cost->squared_tokens(sequence);
    }
}

Load load_like(const Problem& problem, std::int64_t tokens) {
    double dearest = 0;  // squared tokens a token
    for (const Sequence& sequence : problem.sequences) {
        if (sequence.frames > 0) {
            dearest =
                std::max(dearest, sequence.squared_tokens / static_cast<double>(sequence.tokens));
        }
    }
    return dearest > 0 ? Load{tokens, dearest * static_cast<double>(tokens)} : load_of(tokens);
}

StepCost cost_of(const Problem& problem, const Load& load, int degree, int recompute_layers) {
    return problem.cost->cost(load, preferred_strategy(degree, problem.heads), recompute_layers);
}

StepCost cost_of(const Problem& problem, const Step& step) {
    const Load load = step.is_filler() ? load_of(1) : load_of(problem, step.sequences);
    StepCost cost = problem.cost->cost(load, step.strategy, step.recompute_layers);
    cost.compute_seconds /= problem.topology.slowest(step.world_ranks);
    if (step.is_filler()) {  // one token is nothing beside what is there all the time
        cost.peak_bytes = problem.cost->linear(1, step.recompute_layers).static_bytes;
    }
    return cost;
}

bool fits(const Problem& problem, const Load& load, int degree, int recompute_layers) {
    return cost_of(problem, load, degree, recompute_layers).peak_bytes <=
           problem.memory_budget_bytes;
}

int leanest_depth(const Problem& problem, const Load& load, int degree) {
    const int most = problem.max_recompute_layers();
    const double kept = cost_of(problem, load, degree, 0).peak_bytes;
    return cost_of(problem, load, degree, most).peak_bytes < kept ? most : 0;
}

namespace {

// When steps start. Steps come in their global order.
class Clock {
public:
    explicit Clock(const Problem& problem)
        : in_rounds_(problem.step_mode != StepMode::kIndependent),
          ready_(static_cast<std::size_t>(problem.topology.ranks), 0.0),
          done_(ready_.size(), 0) {}

    double start(const Step& step) const {
        if (in_rounds_) {
            const std::size_t round = done_[static_cast<std::size_t>(step.world_ranks.front())];
            return round == 0 ? 0 : round_ends_[std::min(round, round_ends_.size()) - 1];
        }
        double start = 0;
        for (const int rank : step.world_ranks) {
            start = std::max(start, ready_[static_cast<std::size_t>(rank)]);
        }
        return start;
    }
    void finish(const Step& step) {
        const double end = step.start_seconds + step.seconds;
        const std::size_t round = done_[static_cast<std::size_t>(step.world_ranks.front())];
        round_ends_.resize(std::max(round_ends_.size(), round + 1), 0.0);
        round_ends_[round] = std::max(round_ends_[round], end);
        for (const int rank : step.world_ranks) {
            ready_[static_cast<std::size_t>(rank)] = end;
            ++done_[static_cast<std::size_t>(rank)];
        }
    }

private:
    bool in_rounds_;
    std::vector<double> ready_;
    std::vector<std::size_t> done_;   // steps of every rank
    std::vector<double> round_ends_;  // of the n-th step of any rank
};

}  // namespace

Plan predicted(const Problem& problem, std::vector<Step> steps) {
    Plan plan;
    Clock clock(problem);
    double last_end = 0;
    for (Step& step : steps) {
        const StepCost cost = cost_of(problem, step);
        step.seconds = cost.seconds();
        step.peak_bytes = cost.peak_bytes;
        step.start_seconds = clock.start(step);
        clock.finish(step);
        last_end = std::max(last_end, step.start_seconds + step.seconds);
    }
    plan.steps = std::move(steps);
    plan.makespan_seconds = last_end + problem.cost->per_iteration_seconds();
    return plan;
}

StepMode parse_step_mode(std::string_view text) {
    for (const StepMode mode :
         {StepMode::kIndependent, StepMode::kRounds, StepMode::kRoundsOneDepth}) {
        if (text == to_string(mode)) {
            return mode;
        }
    }
    throw ConfigError(
        fmt::format("step mode '{}': must be independent, rounds or rounds-one-depth", text));
}

std::string_view to_string(StepMode mode) {
    switch (mode) {
        case StepMode::kIndependent:
            return "independent";
        case StepMode::kRounds:
            return "rounds";
        case StepMode::kRoundsOneDepth:
            return "rounds-one-depth";
    }
    return "";
}

}  // namespace dcp::plan
