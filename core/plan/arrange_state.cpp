#include "core/plan/arrange_state.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace dcp::plan {

namespace {

// Of the table of rooms, and of what is read from it. A fine table takes as long as some dozens of
// moves, so a rough one is also kept while what it was made for has hardly changed.
constexpr int kRoughSteps = 192;
constexpr int kFineSteps = 768;
constexpr int kRoughHalvings = 6;
constexpr int kFineHalvings = 20;
constexpr double kNearSeconds = 0.2;
constexpr double kNearSquares = 0.02;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kSpreadUse = 0.6;  // of what lengths differ, what dealing them out can use

}  // namespace

ArrangeState::ArrangeState(const Problem& problem,
                           const MicroCosts& costs,
                           Arrangement start,
                           double bound_seconds,
                           bool is_rough)
    : problem_(problem),
      costs_(costs),
      bound_(bound_seconds),
      is_rough_(is_rough),
      placer_(problem.topology),
      pool_(std::move(start.short_ones)),
      pool_load_(costs.most_tokens(0)),
      rooms_(costs, Load{}, 0, bound_seconds, kRoughSteps) {
    for (Gang& gang : start.gangs) {
        gangs_.push_back({.degree_index = gang.degree_index,
                          .sequences = std::move(gang.sequences),
                          .load = gang.load,
                          .seconds = gang.seconds});
    }
    for (const std::int32_t sequence : pool_) {
        pool_load_.add(load_of_sequence(sequence));
    }
    spread_ = kSpreadUse * spread_of_lengths();
}

// How far squares a token lie from their mean, in parts of the mean, weighted by tokens.
double ArrangeState::spread_of_lengths() const {
    if (pool_load_.load().tokens == 0) {
        return 0;
    }
    const double mean =
        pool_load_.load().squared_tokens / static_cast<double>(pool_load_.load().tokens);
    double sum = 0;
    for (const std::int32_t sequence : pool_) {
        const Load load = load_of_sequence(sequence);
        sum += std::abs(load.squared_tokens - mean * static_cast<double>(load.tokens));
    }
    return std::min(1.0, sum / static_cast<double>(pool_load_.load().tokens) / mean);
}

bool ArrangeState::reload(Member& gang, const Load& load) const {
    const double seconds = costs_.seconds(gang.degree_index, load);
    if (!(seconds <= 1.1 * target_)) {
        return false;
    }
    gang.load = load;
    gang.seconds = seconds;
    return true;
}

void ArrangeState::set_target(double seconds) {
    target_ = seconds;
    const std::int64_t full = costs_.most_tokens(0);
    const Load full_one{.tokens = full,
                        .squared_tokens = squares_a_token() * static_cast<double>(full)};
    set_ending({.seconds = seconds,
                .full_seconds = costs_.seconds(0, full_one),
                .fixed_seconds = costs_.levels(0).front().fixed_seconds});
    make_rooms(seconds);
}

void ArrangeState::set_ending(const Ending& ending) {
    if (ending != placer_.ending()) {
        placer_.set_ending(ending);
        placed_.clear();
    }
}

double ArrangeState::squares_a_token() const {
    const Load& pool = pool_load_.load();
    return pool.squared_tokens / static_cast<double>(std::max<std::int64_t>(1, pool.tokens));
}

void ArrangeState::make_rooms(double seconds) {
    const Load& pool = pool_load_.load();
    const double squares = squares_a_token();
    const auto is_near = [](double a, double b, double most) {
        return std::abs(a - b) <= most * b;
    };
    if (is_rough_ && is_near(seconds, rooms_seconds_, kNearSeconds) &&
        is_near(squares, rooms_squares_, kNearSquares)) {
        return;
    }
    rooms_ = Rooms(costs_, pool, spread_, seconds, is_rough_ ? kRoughSteps : kFineSteps);
    rooms_seconds_ = seconds;
    rooms_squares_ = squares;
}

// Wide before narrow, long before short. Most of the order is as it was.
void ArrangeState::sort_order() {
    for (std::size_t i = order_.size(); i < gangs_.size(); ++i) {
        order_.push_back(i);
    }
    const auto before = [&](std::size_t a, std::size_t b) {
        const Member& x = gangs_[a];
        const Member& y = gangs_[b];
        if (x.degree_index != y.degree_index) {
            return x.degree_index > y.degree_index;
        }
        return x.seconds != y.seconds ? x.seconds > y.seconds : a < b;
    };
    for (std::size_t i = 1; i < order_.size(); ++i) {
        const std::size_t gang = order_[i];
        std::size_t place = i;
        for (; place > 0 && before(gang, order_[place - 1]); --place) {
            order_[place] = order_[place - 1];
        }
        order_[place] = gang;
    }
}

// Places gangs from the first that is not as it was when places were last kept. False, and not all
// placed, as soon as one alone is late by more rank-seconds than that.
bool ArrangeState::place_all(double most_late) {
    sort_order();
    trial_.clear();
    for (const std::size_t i : order_) {
        const Member& gang = gangs_[i];
        if (!gang.is_gone) {
            trial_.push_back({gang.degree_index, gang.seconds, gang.choice});
        }
    }
    num_same_ = 0;
    while (num_same_ < std::min(trial_.size(), placed_.size()) &&
           trial_[num_same_] == placed_[num_same_]) {
        ++num_same_;
    }
    if (states_.empty()) {
        states_.push_back(placer_.state());
    }
    placer_.restore(states_[num_same_]);
    trial_states_.resize(std::max(trial_states_.size(), trial_.size() + 1));
    for (std::size_t i = num_same_; i < trial_.size(); ++i) {
        const Placed& gang = trial_[i];
        const int degree = costs_.degree(gang.degree_index);
        const double end = placer_.place(degree, gang.choice, gang.seconds);
        if (degree * (end - target_) > most_late) {
            return false;
        }
        trial_states_[i + 1] = placer_.state();
    }
    return true;
}

void ArrangeState::keep_places() {
    std::swap(placed_, trial_);
    states_.resize(placed_.size() + 1);
    for (std::size_t i = num_same_ + 1; i < states_.size(); ++i) {
        std::swap(states_[i], trial_states_[i]);
    }
}

// Tokens that find no room, in the mixture where most do not.
double ArrangeState::missing_within(double makespan) const {
    Rooms::Amounts sums{};
    for (int rank = 0; rank < problem_.topology.ranks; ++rank) {
        if (const double room = makespan - placer_.ready(rank); room > 0) {
            rooms_.add_to(sums, room * problem_.topology.speed(rank));
        }
    }
    const auto tokens = static_cast<double>(pool_load_.load().tokens);
    const double packed = pool_load_.packed_tokens();
    double most = 0;
    for (std::size_t k = 0; k < sums.size(); ++k) {
        const double share = Rooms::kWorkShares[k];
        most = std::max(most, (1 - share) * packed + share * tokens - sums[k]);
    }
    return most;
}

double ArrangeState::judge(double most) {
    if (!place_all(most)) {
        return kInfinity;
    }
    double over = 0;
    for (const double ready : placer_.ready()) {
        over += std::max(0.0, ready - target_);
    }
    return over + missing_within(target_) * rooms_.seconds_a_token();
}

double ArrangeState::least_time() {
    place_all(kInfinity);
    keep_places();
    double low = *std::max_element(placer_.ready().begin(), placer_.ready().end());
    make_rooms(std::max(low, bound_));
    const auto is_enough = [&](double makespan) { return missing_within(makespan) <= 0; };
    if (pool_.empty() || is_enough(low)) {
        return std::max(low, 1e-9);
    }
    double high = std::max(low, bound_);
    if (is_rough_ && high < target_ && is_enough(target_)) {
        low = high;
        high = target_;
    }
    while (!is_enough(high)) {
        high *= 1.3;
        if (high > 2.5 * std::max(low, bound_)) {
            make_rooms(high);
        }
    }
    for (int halving = 0; halving < (is_rough_ ? kRoughHalvings : kFineHalvings); ++halving) {
        const double middle = (low + high) / 2;
        (is_enough(middle) ? high : low) = middle;
    }
    return high;
}

Arrangement ArrangeState::arranged(std::vector<Member> gangs,
                                   std::vector<std::int32_t> short_ones,
                                   const Ending& ending,
                                   double seconds) {
    placer_.set_ending(ending);
    gangs_ = std::move(gangs);
    order_.clear();
    sort_order();
    placer_.clear();
    Arrangement result{.gangs = {}, .short_ones = std::move(short_ones), .seconds = seconds};
    for (const std::size_t i : order_) {
        Member& gang = gangs_[i];
        if (gang.is_gone) {
            continue;
        }
        std::vector<int> ranks =
            placer_.choose(costs_.degree(gang.degree_index), gang.choice, gang.seconds);
        placer_.occupy(gang.seconds);
        result.gangs.push_back({.degree_index = gang.degree_index,
                                .sequences = std::move(gang.sequences),
                                .load = gang.load,
                                .seconds = gang.seconds,
                                .world_ranks = std::move(ranks)});
    }
    return result;
}

}  // namespace dcp::plan
