#include "core/plan/construct.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <queue>
#include <utility>

#include "core/plan/fullest.hpp"
#include "core/plan/rooms.hpp"

namespace dcp::plan {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

Constructor::Constructor(const Problem& problem, const MicroCosts& costs)
    : problem_(problem), costs_(costs), longest_first_(problem.sequences.size()) {
    std::iota(longest_first_.begin(), longest_first_.end(), 0);
    std::sort(longest_first_.begin(), longest_first_.end(),
              [&](std::int32_t a, std::int32_t b) { return is_before(a, b); });
    fixed_seconds_ = kNever;
    for (std::size_t index = 0; index < costs.num_degrees(); ++index) {
        if (const MicroCosts::Level* level = costs.level(index, 1); level != nullptr) {
            fixed_seconds_ = std::min(fixed_seconds_, level->fixed_seconds);
        }
    }
}

bool Constructor::is_before(std::int32_t a, std::int32_t b) const {
    const std::int64_t tokens_a = problem_.sequences[static_cast<std::size_t>(a)].tokens;
    const std::int64_t tokens_b = problem_.sequences[static_cast<std::size_t>(b)].tokens;
    return tokens_a != tokens_b ? tokens_a > tokens_b : a < b;
}

bool Constructor::is_solo(const Load& load, double target_seconds, const Habits& habits) const {
    return costs_.degree(0) == 1 && costs_.seconds(0, load) <= target_seconds * habits.solo_share;
}

bool Constructor::is_nested(std::size_t degree_index) const {
    const int degree = costs_.degree(degree_index);
    const int node = problem_.topology.ranks_per_node;
    return node % degree == 0 || degree % node == 0;
}

double Constructor::everybody_seconds(const Gang& gang) const {
    return costs_.degree(gang.degree_index) == problem_.topology.ranks ? gang.seconds : 0;
}

// The degree whose ranks lose least, wasted time included. Where no degree is fast enough, the
// fastest.
Constructor::Choice Constructor::best_new_gang(const Load& load,
                                               double target_seconds,
                                               const Habits& habits) const {
    Choice best{.degree_index = 0, .charge = kNever};
    Choice fastest{.degree_index = 0, .charge = kNever};
    double least_seconds = kNever;
    for (std::size_t index = 0; index < costs_.num_degrees(); ++index) {
        const double seconds = costs_.seconds(index, load);
        if (seconds < least_seconds) {
            least_seconds = seconds;
            fastest = {.degree_index = index, .charge = seconds * costs_.degree(index)};
        }
        if (seconds > target_seconds || (habits.nested_degrees && !is_nested(index))) {
            continue;
        }
        const double left = target_seconds - seconds;
        const double wasted = left < fixed_seconds_ ? left : 0;
        const double charge = costs_.degree(index) * (seconds + habits.waste_share * wasted);
        if (charge < best.charge) {
            best = {.degree_index = index, .charge = charge};
        }
    }
    return best.charge < kNever ? best : fastest;
}

// Long sequences, longest first: each joins the gang or opens the gang that costs least
// rank-seconds. The others are handed back. All are behind the gangs that need every rank.
std::vector<Gang> Constructor::gangs(double target_seconds,
                                     const Habits& habits,
                                     std::vector<std::int32_t>& short_ones) const {
    std::vector<Gang> made;
    double left = target_seconds;
    for (const std::int32_t sequence : longest_first_) {
        const Load load = load_of(problem_.sequences[static_cast<std::size_t>(sequence)]);
        if (is_solo(load, left, habits)) {
            short_ones.push_back(sequence);
            continue;
        }
        const Choice alone = best_new_gang(load, left, habits);
        double least = alone.charge;
        Gang* chosen = nullptr;
        for (Gang& gang : made) {
            const double seconds = costs_.seconds(gang.degree_index, gang.load + load);
            const double charge = (seconds - gang.seconds) * costs_.degree(gang.degree_index);
            if (seconds <= left + everybody_seconds(gang) && charge < least) {
                least = charge;
                chosen = &gang;
            }
        }
        if (chosen == nullptr) {
            made.push_back(
                {.degree_index = alone.degree_index, .sequences = {}, .load = {}, .seconds = 0});
            chosen = &made.back();
        }
        left += everybody_seconds(*chosen);
        chosen->sequences.push_back(sequence);
        chosen->load += load;
        chosen->seconds = costs_.seconds(chosen->degree_index, chosen->load);
        left -= everybody_seconds(*chosen);
    }
    return made;
}

// Each short sequence, longest first, into the fullest gang that takes it for fewer rank-seconds
// than it costs on one rank with its share of a full micro-batch. The others stay.
void Constructor::fill_gangs(std::vector<Gang>& gangs,
                             std::vector<std::int32_t>& short_ones,
                             double target_seconds) const {
    double left_seconds = target_seconds;
    for (const Gang& gang : gangs) {
        left_seconds -= everybody_seconds(gang);
    }
    std::vector<std::int32_t> left;
    for (const std::int32_t sequence : short_ones) {
        const Load load = load_of(problem_.sequences[static_cast<std::size_t>(sequence)]);
        const MicroCosts::Level& single = *costs_.level(0, load.tokens);
        const double share =
            static_cast<double>(load.tokens) / static_cast<double>(single.most_tokens);
        const double price = costs_.seconds(0, load) - single.fixed_seconds * (1 - share);
        Gang* tightest = nullptr;
        std::int64_t least_room = std::numeric_limits<std::int64_t>::max();
        for (Gang& gang : gangs) {
            const std::int64_t room =
                costs_.most_tokens(gang.degree_index) - gang.load.tokens - load.tokens;
            if (room < 0 || room >= least_room) {
                continue;
            }
            const double seconds = costs_.seconds(gang.degree_index, gang.load + load);
            if (seconds <= left_seconds + everybody_seconds(gang) &&
                (seconds - gang.seconds) * costs_.degree(gang.degree_index) < price) {
                tightest = &gang;
                least_room = room;
            }
        }
        if (tightest == nullptr) {
            left.push_back(sequence);
            continue;
        }
        left_seconds += everybody_seconds(*tightest);
        tightest->sequences.push_back(sequence);
        tightest->load += load;
        tightest->seconds = costs_.seconds(tightest->degree_index, tightest->load);
        left_seconds -= everybody_seconds(*tightest);
    }
    short_ones = std::move(left);
}

// Single-rank micro-batches on the ranks with most time left, as few ranks as the work needs; each
// sequence, longest first, goes where most time is left.
void Constructor::spread(Draft& draft,
                         const std::vector<std::int32_t>& short_ones,
                         double target_seconds,
                         const Habits& habits) const {
    if (short_ones.empty()) {
        return;
    }
    Load sum;
    for (const std::int32_t sequence : short_ones) {
        sum += load_of(problem_.sequences[static_cast<std::size_t>(sequence)]);
    }
    const std::int64_t full = most_tokens(0, habits.filling);

    std::vector<int> by_room(static_cast<std::size_t>(problem_.topology.ranks));
    std::iota(by_room.begin(), by_room.end(), 0);
    const auto left = [&](int rank) {
        return target_seconds - draft.busy()[static_cast<std::size_t>(rank)];
    };
    std::sort(by_room.begin(), by_room.end(),
              [&](int a, int b) { return left(a) != left(b) ? left(a) > left(b) : a < b; });
    const double wanted = static_cast<double>(sum.tokens) * (1 + habits.spare_share);
    double opened = 0;  // tokens
    std::size_t num_ranks = 0;
    for (; num_ranks < by_room.size() && (num_ranks == 0 || opened < wanted); ++num_ranks) {
        opened += tokens_in_room(costs_, left(by_room[num_ranks]), sum, full);
    }
    by_room.resize(num_ranks);

    // (time left when one more micro-batch is paid for, rank): the one with most is served.
    using Entry = std::pair<double, int>;
    std::priority_queue<Entry> queue;
    std::vector<std::vector<std::size_t>> own(static_cast<std::size_t>(problem_.topology.ranks));
    for (const int rank : by_room) {
        queue.emplace(left(rank) - costs_.levels(0).front().fixed_seconds, -rank);
    }
    for (const std::int32_t sequence : short_ones) {
        const Load load = load_of(problem_.sequences[static_cast<std::size_t>(sequence)]);
        const int rank = -queue.top().second;
        queue.pop();
        std::vector<std::size_t>& bins = own[static_cast<std::size_t>(rank)];
        // The bin of this rank that grows least; a new one where that is cheaper.
        double least = costs_.seconds(0, load);
        std::size_t chosen = draft.bins().size();
        for (const std::size_t bin : bins) {
            if (draft.bins()[bin].load.tokens + load.tokens > full) {
                continue;
            }
            const double growth = draft.seconds(draft.bins()[bin], draft.bins()[bin].load + load) -
                                  draft.bins()[bin].seconds;
            if (growth < least) {
                least = growth;
                chosen = bin;
            }
        }
        if (chosen == draft.bins().size()) {
            bins.push_back(draft.open(0, {rank}));
        }
        draft.add(chosen, sequence, load);
        queue.emplace(left(rank), -rank);
    }
}

std::int64_t Constructor::most_tokens(std::size_t degree_index, Filling filling) const {
    return filling == Filling::kThrifty ? costs_.thrifty_tokens(degree_index)
                                        : costs_.most_tokens(degree_index);
}

// Best fit, longest first: into the fullest pack of those that still take the sequence.
std::vector<Gang> Constructor::packs_in_turn(const std::vector<std::int32_t>& sequences,
                                             std::size_t degree_index,
                                             double most_seconds,
                                             std::int64_t most_tokens) const {
    constexpr int kTries = 6;  // packs that are looked at: the fullest may be full by time
    std::vector<Gang> made;
    std::multimap<std::int64_t, std::size_t> by_room;
    for (const std::int32_t sequence : sequences) {
        const Load load = load_of(problem_.sequences[static_cast<std::size_t>(sequence)]);
        auto chosen = by_room.end();
        int tries = 0;
        for (auto place = by_room.lower_bound(load.tokens);
             place != by_room.end() && tries < kTries; ++place, ++tries) {
            if (costs_.seconds(degree_index, made[place->second].load + load) <= most_seconds) {
                chosen = place;
                break;
            }
        }
        const bool is_new = chosen == by_room.end();
        const std::size_t pack = is_new ? made.size() : chosen->second;
        if (is_new) {
            made.push_back({.degree_index = degree_index});
        }
        Gang& gang = made[pack];
        gang.sequences.push_back(sequence);
        gang.load += load;
        gang.seconds = costs_.seconds(degree_index, gang.load);
        if (is_new) {
            by_room.emplace(most_tokens - gang.load.tokens, pack);
        } else {  // the same entry in another place
            auto entry = by_room.extract(chosen);
            entry.key() = most_tokens - gang.load.tokens;
            by_room.insert(std::move(entry));
        }
    }
    return made;
}

// The longest that is left, and what fills the rest of the memory best.
std::vector<Gang> Constructor::fullest_packs(const std::vector<std::int32_t>& sequences,
                                             std::size_t degree_index,
                                             double most_seconds) const {
    std::vector<std::int32_t> left = sequences;
    std::vector<Gang> made;
    while (!left.empty()) {
        made.push_back(
            {.degree_index = degree_index,
             .sequences = {left.front()},
             .load = load_of(problem_.sequences[static_cast<std::size_t>(left.front())])});
        left.erase(left.begin());
        fill_up(problem_, costs_, most_seconds, made.back(), left);
    }
    return made;
}

std::vector<Gang> Constructor::packs(const std::vector<std::int32_t>& sequences,
                                     std::size_t degree_index,
                                     double most_seconds,
                                     Filling filling) const {
    return filling == Filling::kFullest ? fullest_packs(sequences, degree_index, most_seconds)
                                        : packs_in_turn(sequences, degree_index, most_seconds,
                                                        most_tokens(degree_index, filling));
}

// Packs for one rank; what leaves them too empty is packed again for two.
std::vector<Gang> Constructor::mixed_packs(const std::vector<std::int32_t>& short_ones,
                                           double target_seconds,
                                           const Habits& habits) const {
    const double most_seconds = target_seconds / habits.packs_a_rank;
    std::vector<Gang> made = packs(short_ones, 0, most_seconds, habits.filling);
    if (habits.merge_share == 0 || costs_.num_degrees() < 2) {
        return made;
    }
    double fullest = 0;
    for (const Gang& gang : made) {
        fullest = std::max(fullest, static_cast<double>(gang.load.tokens));
    }
    const auto is_poor = [&](const Gang& gang) {
        return static_cast<double>(gang.load.tokens) < habits.merge_share * fullest;
    };
    std::vector<bool> is_loose(problem_.sequences.size(), false);
    for (const Gang& gang : made) {
        for (const std::int32_t sequence : gang.sequences) {
            is_loose[static_cast<std::size_t>(sequence)] = is_poor(gang);
        }
    }
    std::erase_if(made, is_poor);
    std::vector<std::int32_t> loose;
    std::copy_if(short_ones.begin(), short_ones.end(), std::back_inserter(loose),
                 [&](std::int32_t s) { return is_loose[static_cast<std::size_t>(s)]; });
    std::vector<Gang> merged = packs(loose, 1, most_seconds, habits.filling);
    std::move(merged.begin(), merged.end(), std::back_inserter(made));
    return made;
}

// Gives every gang its ranks: wide before narrow, long before short.
void Constructor::open(Draft& draft, std::vector<Gang> gangs) const {
    sort_wide_first(gangs);
    Placer placer(problem_.topology, draft.busy());
    for (Gang& gang : gangs) {
        if (gang.world_ranks.empty()) {
            gang.world_ranks = placer.soonest(costs_.degree(gang.degree_index));
        }
        placer.occupy(gang.world_ranks, gang.seconds);
        draft.open(gang.degree_index, std::move(gang.world_ranks), std::move(gang.sequences));
    }
}

Arrangement Constructor::outline(double target_seconds, const Habits& habits) const {
    Arrangement made;
    made.gangs = gangs(target_seconds, habits, made.short_ones);
    if (habits.filling == Filling::kFullest) {
        for (Gang& gang : made.gangs) {
            fill_up(problem_, costs_, target_seconds, gang, made.short_ones);
        }
    } else if (habits.fill_gangs && !made.short_ones.empty()) {
        fill_gangs(made.gangs, made.short_ones, target_seconds);
    }
    made.seconds = target_seconds;
    return made;
}

Draft Constructor::construct(const Arrangement& arrangement,
                             double target_seconds,
                             const Habits& habits) const {
    Draft draft(problem_, costs_);
    std::vector<Gang> wide = arrangement.gangs;
    std::vector<bool> is_short(longest_first_.size(), false);
    for (const std::int32_t sequence : arrangement.short_ones) {
        is_short[static_cast<std::size_t>(sequence)] = true;
    }
    std::vector<std::int32_t> short_ones;
    short_ones.reserve(arrangement.short_ones.size());
    std::copy_if(longest_first_.begin(), longest_first_.end(), std::back_inserter(short_ones),
                 [&](std::int32_t s) { return is_short[static_cast<std::size_t>(s)]; });
    if (habits.packs_a_rank > 0) {
        std::vector<Gang> narrow = mixed_packs(short_ones, target_seconds, habits);
        std::move(narrow.begin(), narrow.end(), std::back_inserter(wide));
        open(draft, std::move(wide));
    } else {
        open(draft, std::move(wide));
        spread(draft, short_ones, target_seconds, habits);
    }
    return draft;
}

Draft Constructor::construct(double target_seconds, const Habits& habits) const {
    return construct(outline(target_seconds, habits), target_seconds, habits);
}

}  // namespace dcp::plan
