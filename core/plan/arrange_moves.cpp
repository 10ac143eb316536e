#include "core/plan/arrange_moves.hpp"

#include <algorithm>
#include <utility>

namespace dcp::plan {

namespace {

// What a gang held before a move. It may last longer than a load may that is new to it, so reload()
// would not give it back.
struct Held {
    Load load;
    double seconds;
};

Held held(const ArrangeState::Member& gang) {
    return {.load = gang.load, .seconds = gang.seconds};
}

void restore(ArrangeState::Member& gang, const Held& before) {
    gang.load = before.load;
    gang.seconds = before.seconds;
}

}  // namespace

ArrangeMoves::ArrangeMoves(ArrangeState& state,
                           std::vector<std::size_t> degrees,
                           double most_gang_seconds,
                           FastRandom& random)
    : state_(state),
      costs_(state.costs()),
      gangs_(state.gangs()),
      pool_(state.pool()),
      pool_load_(state.pool_load()),
      degrees_(std::move(degrees)),
      most_gang_seconds_(most_gang_seconds),
      random_(random) {}

std::size_t ArrangeMoves::draw_gang() {
    if (gangs_.empty()) {
        return kNone;
    }
    const std::size_t i = random_.below(gangs_.size());
    return gangs_[i].is_gone ? kNone : i;
}

bool ArrangeMoves::try_one(double most) {
    const double what = random_.uniform();
    if (what < 0.2) {
        return try_choice(most);
    }
    if (what < 0.4) {
        return try_degree(most);
    }
    if (what < 0.85) {
        return try_sequences(most);
    }
    return what < 0.93 ? try_opening(most) : try_closing(most);
}

bool ArrangeMoves::keep(double most) {
    value_ = state_.judge(most);
    if (value_ > most) {
        return false;
    }
    state_.keep_places();
    return true;
}

int ArrangeMoves::draw_choice() {
    return static_cast<int>(random_.below(Placer::kFitting + 1));
}

int ArrangeMoves::draw_good_choice() {
    return random_.uniform() < 0.5 ? Placer::kFitting : 0;
}

bool ArrangeMoves::try_choice(double most) {
    const std::size_t i = draw_gang();
    if (i == kNone) {
        return false;
    }
    const int before = std::exchange(gangs_[i].choice, draw_choice());
    if (before == gangs_[i].choice || keep(most)) {
        return before != gangs_[i].choice;
    }
    gangs_[i].choice = before;
    return false;
}

bool ArrangeMoves::try_degree(double most) {
    const std::size_t i = draw_gang();
    if (i == kNone) {
        return false;
    }
    ArrangeState::Member& gang = gangs_[i];
    std::size_t at = 0;
    while (at + 1 < degrees_.size() && degrees_[at] < gang.degree_index) {
        ++at;
    }
    const std::size_t shift = 1 + (random_.uniform() < 0.3 ? random_.below(4) : 0);
    if (random_.uniform() < 0.5) {
        at += shift;
    } else {
        at -= shift;  // wraps to a large number
    }
    if (at >= degrees_.size()) {
        return false;
    }
    const std::size_t index = degrees_[at];
    const double seconds = costs_.seconds(index, gang.load);
    if (!(seconds <= std::min(state_.target() * 1.1, most_gang_seconds_))) {
        return false;
    }
    const ArrangeState::Member before{.degree_index = gang.degree_index,
                                      .sequences = {},
                                      .load = {},
                                      .seconds = gang.seconds,
                                      .choice = gang.choice};
    gang.degree_index = index;
    gang.seconds = seconds;
    if (random_.uniform() < 0.5) {
        gang.choice = draw_good_choice();
    }
    if (keep(most)) {
        return true;
    }
    gang.degree_index = before.degree_index;
    gang.seconds = before.seconds;
    gang.choice = before.choice;
    return false;
}

// Behind the gangs that need every rank.
bool ArrangeMoves::fits_one_rank(std::int32_t sequence) const {
    const Load load = state_.load_of_sequence(sequence);
    if (load.tokens > costs_.most_tokens(0)) {
        return false;
    }
    double left = state_.target() - costs_.seconds(0, load);
    for (std::size_t i = 0; i < gangs_.size() && left >= 0; ++i) {
        const ArrangeState::Member& gang = gangs_[i];
        if (!gang.is_gone && costs_.degree(gang.degree_index) == state_.num_ranks()) {
            left -= gang.seconds;
        }
    }
    return left >= 0;
}

// A sequence of a gang leaves, one of the pool joins, or both.
bool ArrangeMoves::try_sequences(double most) {
    const std::size_t i = draw_gang();
    if (i == kNone) {
        return false;
    }
    const std::size_t other = random_.uniform() < 0.3 ? draw_gang() : kNone;
    if (other != kNone) {
        return other != i && try_between(i, other, most);
    }
    ArrangeState::Member& gang = gangs_[i];
    const double what = random_.uniform();
    const bool leaves = what < 0.65 && gang.sequences.size() > 1;
    const bool joins = what >= 0.3 && !pool_.empty();
    if (!leaves && !joins) {
        return false;
    }
    const std::size_t at = random_.below(gang.sequences.size());
    const std::size_t from = joins ? random_.below(pool_.size()) : 0;
    if (leaves && !fits_one_rank(gang.sequences[at])) {
        return false;
    }
    const Load out = leaves ? state_.load_of_sequence(gang.sequences[at]) : Load{};
    const Load in = joins ? state_.load_of_sequence(pool_[from]) : Load{};
    const Held before = held(gang);
    if (!state_.reload(gang, gang.load - out + in)) {
        return false;
    }
    const auto shift = [&](int direction) {
        if (leaves) {
            pool_load_.add(out, direction);
        }
        if (joins) {
            pool_load_.add(in, -direction);
        }
    };
    shift(1);
    if (!keep(most)) {
        restore(gang, before);
        shift(-1);
        return false;
    }
    if (leaves && joins) {
        std::swap(gang.sequences[at], pool_[from]);
    } else if (leaves) {
        pool_.push_back(gang.sequences[at]);
        gang.sequences[at] = gang.sequences.back();
        gang.sequences.pop_back();
    } else {
        gang.sequences.push_back(pool_[from]);
        pool_[from] = pool_.back();
        pool_.pop_back();
    }
    return true;
}

bool ArrangeMoves::try_between(std::size_t i, std::size_t j, double most) {
    ArrangeState::Member& a = gangs_[i];
    ArrangeState::Member& b = gangs_[j];
    const bool is_exchange = random_.uniform() < 0.5;
    if (!is_exchange && a.sequences.size() < 2) {
        return false;
    }
    const std::size_t at = random_.below(a.sequences.size());
    const std::size_t back = random_.below(b.sequences.size());
    const Load out = state_.load_of_sequence(a.sequences[at]);
    const Load in = is_exchange ? state_.load_of_sequence(b.sequences[back]) : Load{};
    const Held before_a = held(a);
    const Held before_b = held(b);
    if (!state_.reload(a, a.load - out + in)) {
        return false;
    }
    if (!state_.reload(b, b.load + out - in)) {
        restore(a, before_a);
        return false;
    }
    if (!keep(most)) {
        restore(a, before_a);
        restore(b, before_b);
        return false;
    }
    if (is_exchange) {
        std::swap(a.sequences[at], b.sequences[back]);
    } else {
        b.sequences.push_back(a.sequences[at]);
        a.sequences[at] = a.sequences.back();
        a.sequences.pop_back();
    }
    return true;
}

// A gang inside a node, filled with sequences of the pool.
bool ArrangeMoves::try_opening(double most) {
    const std::size_t index = degrees_[random_.below(std::min<std::size_t>(degrees_.size(), 7))];
    if (pool_.size() < 2 || costs_.most_tokens(index) == 0) {
        return false;
    }
    ArrangeState::Member gang{.degree_index = index, .sequences = {}, .load = {}, .seconds = 0};
    const std::vector<std::int32_t> pool_before = pool_;
    const Pool load_before = pool_load_;
    const double most_tokens =
        (0.9 + 0.1 * random_.uniform()) * static_cast<double>(costs_.most_tokens(index));
    for (int tries = 12 * costs_.degree(index); tries > 0 && pool_.size() > 1; --tries) {
        std::size_t at = random_.below(pool_.size());
        const std::size_t other = random_.below(pool_.size());
        if (state_.load_of_sequence(pool_[other]).tokens >
            state_.load_of_sequence(pool_[at]).tokens) {
            at = other;  // long ones gain most
        }
        const Load load = gang.load + state_.load_of_sequence(pool_[at]);
        if (!(costs_.seconds(index, load) <= state_.target()) ||
            static_cast<double>(gang.load.tokens) > most_tokens) {
            continue;
        }
        gang.load = load;
        gang.sequences.push_back(pool_[at]);
        pool_[at] = pool_.back();
        pool_.pop_back();
    }
    if (gang.sequences.empty()) {
        return false;
    }
    gang.seconds = costs_.seconds(index, gang.load);
    gang.choice = draw_good_choice();
    for (const std::int32_t sequence : gang.sequences) {
        pool_load_.add(state_.load_of_sequence(sequence), -1);
    }
    std::size_t place = 0;
    while (place < gangs_.size() && !gangs_[place].is_gone) {
        ++place;
    }
    if (place == gangs_.size()) {
        gangs_.emplace_back();
    }
    gangs_[place] = std::move(gang);
    if (keep(most)) {
        return true;
    }
    gangs_[place].is_gone = true;
    pool_ = pool_before;
    pool_load_ = load_before;
    return false;
}

bool ArrangeMoves::try_closing(double most) {
    const std::size_t i = draw_gang();
    if (i == kNone) {
        return false;
    }
    ArrangeState::Member& gang = gangs_[i];
    gang.is_gone = true;
    const bool all_fit =
        std::all_of(gang.sequences.begin(), gang.sequences.end(),
                    [&](std::int32_t sequence) { return fits_one_rank(sequence); });
    if (!all_fit) {
        gang.is_gone = false;
        return false;
    }
    const Pool load_before = pool_load_;
    for (const std::int32_t sequence : gang.sequences) {
        pool_load_.add(state_.load_of_sequence(sequence));
    }
    if (keep(most)) {
        pool_.insert(pool_.end(), gang.sequences.begin(), gang.sequences.end());
        return true;
    }
    gang.is_gone = false;
    pool_load_ = load_before;
    return false;
}

}  // namespace dcp::plan
