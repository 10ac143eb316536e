#include "core/plan/phases.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace dcp::plan {

namespace {

std::int64_t tokens_held(const Problem& problem, int degree, int depth) {
    std::int64_t held = 0;
    std::int64_t too_many = std::int64_t{1} << 40;
    while (too_many - held > 1) {
        const std::int64_t middle = held + (too_many - held) / 2;
        (fits(problem, Load{middle, 0}, degree, depth) ? held : too_many) = middle;
    }
    return held;
}

bool is_power_of_two(int degree) {
    return (degree & (degree - 1)) == 0;
}

}  // namespace

RunCosts::RunCosts(const Problem& problem)
    : problem_(&problem), most_tokens_(static_cast<std::size_t>(problem.topology.ranks) + 1, 0) {
    check_problem(problem);
    require_all_fit(problem);
    const Load longest = load_of(problem.longest());
    const bool fits_without =
        std::any_of(problem.degrees.begin(), problem.degrees.end(),
                    [&](int degree) { return fits(problem, longest, degree, 0); });
    depth_ = fits_without ? 0 : problem.max_recompute_layers();
    pieces_.resize(most_tokens_.size());
    for (const int degree : problem.degrees) {
        pieces_[static_cast<std::size_t>(degree)] = problem.cost->pieces(degree, depth_);
        const std::int64_t held = tokens_held(problem, degree, depth_);
        if (held > 0) {
            degrees_.push_back(degree);
            most_tokens_[static_cast<std::size_t>(degree)] = held;
        }
    }
}

std::int64_t RunCosts::most_tokens(int degree) const {
    return most_tokens_[static_cast<std::size_t>(degree)];
}

std::int64_t RunCosts::world_tokens() const {
    std::int64_t most = 0;
    for (const int degree : degrees_) {
        most = std::max(most, most_tokens(degree) * (problem_->topology.ranks / degree));
    }
    return most;
}

int RunCosts::least_degree(std::int64_t tokens) const {
    return *std::find_if(degrees_.begin(), degrees_.end(),
                         [&](int degree) { return most_tokens(degree) >= tokens; });
}

std::int64_t RunCosts::tokens(std::int32_t sequence) const {
    return problem_->sequences[static_cast<std::size_t>(sequence)].tokens;
}

Load RunCosts::load(std::int32_t sequence) const {
    return load_of(problem_->sequences[static_cast<std::size_t>(sequence)]);
}

double RunCosts::seconds(int degree, const Load& load) const {
    const std::vector<CostPiece>& pieces = pieces_[static_cast<std::size_t>(degree)];
    const auto piece = std::find_if(pieces.begin(), pieces.end() - 1, [&](const CostPiece& own) {
        return load.tokens <= own.most_tokens;
    });
    return piece->line.seconds(load);
}

std::vector<std::int32_t> RunCosts::longest_first() const {
    std::vector<std::int32_t> order(problem_->sequences.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
        return tokens(a) != tokens(b) ? tokens(a) > tokens(b) : a < b;
    });
    return order;
}

std::vector<int> power_of_two_domain(const RunCosts& costs, int least) {
    const std::int64_t longest = costs.problem().longest();
    std::vector<int> domain;
    bool holds_longest = false;
    for (const int degree : costs.degrees()) {
        if (is_power_of_two(degree) && degree >= least) {
            domain.push_back(degree);
            holds_longest = holds_longest || costs.most_tokens(degree) >= longest;
        }
    }
    return holds_longest ? domain : costs.degrees();
}

void Phases::begin() {
    const Topology& topology = costs_.problem().topology;
    free_of_node_.assign(static_cast<std::size_t>(topology.num_nodes()), {});
    for (int rank = 0; rank < topology.ranks; ++rank) {
        free_of_node_[static_cast<std::size_t>(topology.node_of(rank))].push_back(rank);
    }
    free_ranks_ = topology.ranks;
    begins_.push_back(steps_.size());
}

// As tight as can be: the nodes with most free ranks, but for the last, which is the one with the
// fewest that do.
std::vector<int> Phases::find(int degree) const {
    std::vector<std::size_t> order(free_of_node_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        const std::size_t free_a = free_of_node_[a].size();
        const std::size_t free_b = free_of_node_[b].size();
        return free_a != free_b ? free_a > free_b : a < b;
    });
    const auto num_nodes = static_cast<std::size_t>(costs_.problem().topology.nodes_for(degree));
    std::vector<int> ranks;
    for (std::size_t i = 0; i + 1 < num_nodes; ++i) {
        const std::vector<int>& free = free_of_node_[order[i]];
        ranks.insert(ranks.end(), free.begin(), free.end());
    }
    const std::size_t missing = static_cast<std::size_t>(degree) - ranks.size();
    const std::vector<int>* last = nullptr;
    for (std::size_t i = num_nodes - 1; i < order.size(); ++i) {
        if (free_of_node_[order[i]].size() >= missing) {
            last = &free_of_node_[order[i]];
        }
    }
    if (last == nullptr) {
        return {};
    }
    ranks.insert(ranks.end(), last->begin(), last->begin() + static_cast<std::ptrdiff_t>(missing));
    std::sort(ranks.begin(), ranks.end());
    return ranks;
}

bool Phases::place(int degree, const std::vector<std::int32_t>& sequences) {
    const std::vector<int> ranks = find(degree);
    if (ranks.empty()) {
        return false;
    }
    for (const int rank : ranks) {
        std::erase(free_of_node_[static_cast<std::size_t>(costs_.problem().topology.node_of(rank))],
                   rank);
    }
    free_ranks_ -= degree;
    steps_.push_back({.world_ranks = ranks,
                      .sequences = sequences,
                      .strategy = preferred_strategy(degree, costs_.problem().heads),
                      .recompute_layers = costs_.depth()});
    return true;
}

PhasedPlan Phases::finish() && {
    PhasedPlan result{.plan = predicted(costs_.problem(), std::move(steps_)),
                      .barrier_seconds = costs_.problem().cost->per_iteration_seconds()};
    begins_.push_back(result.plan.steps.size());
    for (std::size_t phase = 0; phase + 1 < begins_.size(); ++phase) {
        double longest = 0;
        for (std::size_t step = begins_[phase]; step < begins_[phase + 1]; ++step) {
            longest = std::max(longest, result.plan.steps[step].seconds);
        }
        result.barrier_seconds += longest;
    }
    return result;
}

}  // namespace dcp::plan
