#include "core/plan/draft.hpp"

#include <algorithm>
#include <utility>

namespace dcp::plan {

Draft::Draft(const Problem& problem, const MicroCosts& costs)
    : problem_(&problem),
      costs_(&costs),
      busy_(static_cast<std::size_t>(problem.topology.ranks), 0.0),
      bins_of_rank_(static_cast<std::size_t>(problem.topology.ranks)) {}

double Draft::busiest() const {
    return *std::max_element(busy_.begin(), busy_.end());
}

std::size_t Draft::open(std::size_t degree_index,
                        std::vector<int> world_ranks,
                        std::vector<std::int32_t> sequences) {
    const std::size_t index = bins_.size();
    const double slowdown = 1 / problem_->topology.slowest(world_ranks);
    Bin bin{.degree_index = degree_index,
            .world_ranks = std::move(world_ranks),
            .sequences = std::move(sequences),
            .slowdown = slowdown};
    bin.load = load_of(*problem_, bin.sequences);
    bin.seconds = seconds(bin, bin.load);
    double ready = 0;
    for (const int rank : bin.world_ranks) {
        ready = std::max(ready, busy_[static_cast<std::size_t>(rank)]);
    }
    for (const int rank : bin.world_ranks) {
        busy_[static_cast<std::size_t>(rank)] = ready + bin.seconds;
        bins_of_rank_[static_cast<std::size_t>(rank)].push_back(index);
    }
    bins_.push_back(std::move(bin));
    return index;
}

void Draft::reload(Bin& bin, const Load& load) {
    const double now = seconds(bin, load);
    for (const int rank : bin.world_ranks) {
        busy_[static_cast<std::size_t>(rank)] += now - bin.seconds;
    }
    bin.load = load;
    bin.seconds = now;
}

void Draft::add(std::size_t bin, std::int32_t sequence, const Load& load) {
    bins_[bin].sequences.push_back(sequence);
    reload(bins_[bin], bins_[bin].load + load);
}

void Draft::move(std::size_t from, std::size_t position, const Load& load, std::size_t to) {
    std::vector<std::int32_t>& sequences = bins_[from].sequences;
    const std::int32_t sequence = sequences[position];
    sequences[position] = sequences.back();
    sequences.pop_back();
    reload(bins_[from], bins_[from].load - load);
    add(to, sequence, load);
}

void Draft::exchange(std::size_t a,
                     std::size_t position_a,
                     const Load& load_a,
                     std::size_t b,
                     std::size_t position_b,
                     const Load& load_b) {
    std::swap(bins_[a].sequences[position_a], bins_[b].sequences[position_b]);
    reload(bins_[a], bins_[a].load - load_a + load_b);
    reload(bins_[b], bins_[b].load - load_b + load_a);
}

void Draft::relocate(std::size_t bin, int world_rank) {
    int& here = bins_[bin].world_ranks.front();
    const auto from = static_cast<std::size_t>(here);
    const auto to = static_cast<std::size_t>(world_rank);
    std::vector<std::size_t>& left = bins_of_rank_[from];
    left.erase(std::find(left.begin(), left.end(), bin));
    bins_of_rank_[to].push_back(bin);
    busy_[from] -= bins_[bin].seconds;
    busy_[to] += bins_[bin].seconds;
    here = world_rank;
}

Draft Draft::opened_anew(Draft draft) {
    Draft anew(*draft.problem_, *draft.costs_);
    anew.bins_.reserve(draft.bins_.size());
    for (const bool singles : {false, true}) {
        for (Bin& bin : draft.bins_) {
            if (!bin.sequences.empty() && (bin.world_ranks.size() == 1) == singles) {
                anew.open(bin.degree_index, std::move(bin.world_ranks), std::move(bin.sequences));
            }
        }
    }
    return anew;
}

std::vector<Step> Draft::steps() const {
    std::vector<Step> steps;
    for (const bool singles : {false, true}) {
        for (const Bin& bin : bins_) {
            if (bin.sequences.empty() || (bin.world_ranks.size() == 1) != singles) {
                continue;
            }
            steps.push_back(
                {.world_ranks = bin.world_ranks,
                 .sequences = bin.sequences,
                 .strategy = preferred_strategy(costs_->degree(bin.degree_index), problem_->heads),
                 .recompute_layers = costs_->level(bin.degree_index, bin.load.tokens)->depth});
        }
    }
    return steps;
}

}  // namespace dcp::plan
