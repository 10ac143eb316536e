#include "core/plan/round_maker.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/plan/draft.hpp"

namespace dcp::plan {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

RoundMaker::RoundMaker(const Problem& problem, const MicroCosts& costs)
    : problem_(problem), costs_(costs), placer_(problem.topology) {
    for (const Sequence& sequence : problem.sequences) {
        loads_.push_back(load_of(sequence));
        choices_.push_back(choices_of(loads_.back()));
    }
}

std::vector<RoundMaker::Choice> RoundMaker::choices_of(const Load& load) const {
    std::vector<Choice> all;
    for (std::size_t index = 0; index < costs_.num_degrees(); ++index) {
        const double seconds = costs_.seconds(index, load);
        if (seconds < kNever) {
            all.push_back({.charge = seconds * costs_.degree(index),
                           .seconds = seconds,
                           .degree_index = index});
        }
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const Choice& a, const Choice& b) { return a.charge < b.charge; });
    std::vector<Choice> kept;
    for (const Choice& choice : all) {
        if (kept.empty() || choice.seconds < kept.back().seconds) {
            kept.push_back(choice);
        }
    }
    return kept;
}

std::vector<Gang> RoundMaker::make(std::vector<std::int32_t>& left, double limit) {
    gangs_.clear();
    open_gangs_.clear();
    placer_.clear();
    free_ranks_ = problem_.topology.ranks;
    has_no_room_.assign(costs_.num_degrees(), false);
    least_ = {std::numeric_limits<std::int64_t>::max(), kNever};
    for (const std::int32_t sequence : left) {
        const Load& load = loads_[static_cast<std::size_t>(sequence)];
        least_ = {std::min(least_.tokens, load.tokens),
                  std::min(least_.squared_tokens, load.squared_tokens)};
    }
    std::vector<std::int32_t> kept;
    for (const std::int32_t sequence : left) {
        if (!open_or_join(sequence, limit)) {
            kept.push_back(sequence);
        }
    }
    left = std::move(kept);
    return gangs_;
}

// Nothing where no degree is quick enough.
const RoundMaker::Choice* RoundMaker::cheapest(std::int32_t sequence, double limit) const {
    const std::vector<Choice>& choices = choices_[static_cast<std::size_t>(sequence)];
    const auto found =
        std::partition_point(choices.begin(), choices.end(),
                             [limit](const Choice& choice) { return choice.seconds > limit; });
    return found == choices.end() ? nullptr : &*found;
}

// Cheapest in rank-seconds, the fixed cost of a new micro-batch by its share of the tokens.
bool RoundMaker::open_or_join(std::int32_t sequence, double limit) {
    const Load& load = loads_[static_cast<std::size_t>(sequence)];
    const Choice* alone = cheapest(sequence, limit);
    num_looks_ += 1 + static_cast<std::int64_t>(open_gangs_.size());
    std::size_t fullest = gangs_.size();
    double least_room = kNever;
    for (const std::size_t index : open_gangs_) {
        const Gang& gang = gangs_[index];
        const double seconds = costs_.seconds(gang.degree_index, gang.load + load);
        const double growth = (seconds - gang.seconds) * costs_.degree(gang.degree_index);
        if (seconds <= limit && (alone == nullptr || growth <= alone->charge) &&
            limit - seconds < least_room) {
            least_room = limit - seconds;
            fullest = index;
        }
    }
    if (fullest == gangs_.size() && (alone == nullptr || !open(alone->degree_index))) {
        return false;
    }
    Gang& gang = gangs_[fullest];
    gang.sequences.push_back(sequence);
    gang.load += load;
    gang.seconds = costs_.seconds(gang.degree_index, gang.load);
    if (costs_.seconds(gang.degree_index, gang.load + least_) > limit) {
        std::erase(open_gangs_, fullest);
    }
    return true;
}

bool RoundMaker::open(std::size_t degree_index) {
    const int degree = costs_.degree(degree_index);
    if (degree > free_ranks_ || has_no_room_[degree_index]) {
        return false;
    }
    const std::vector<int>& ranks = placer_.choose(degree, 0, 0);
    if (std::any_of(ranks.begin(), ranks.end(),
                    [&](int rank) { return placer_.ready(rank) > 0; })) {
        has_no_room_[degree_index] = true;  // nor will it have any in this round
        return false;
    }
    open_gangs_.push_back(gangs_.size());
    gangs_.push_back({.degree_index = degree_index, .world_ranks = ranks});
    placer_.occupy(1);
    free_ranks_ -= degree;
    return true;
}

}  // namespace dcp::plan
