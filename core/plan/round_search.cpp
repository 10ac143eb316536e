#include "core/plan/round_search.hpp"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "core/plan/draft.hpp"
#include "core/plan/fast_random.hpp"

namespace dcp::plan {

namespace {

class RoundAnnealing {
public:
    RoundAnnealing(const Problem& problem, std::vector<RoundState> rounds, std::uint64_t seed)
        : problem_(problem),
          rounds_(std::move(rounds)),
          best_(rounds_),
          best_seconds_(total_seconds(rounds_)),
          random_(seed) {}

    std::vector<RoundState> run(std::int64_t moves) {
        // As in improve.cpp: thresholds drawn evenly, falling with the third power. Hotter than
        // this and what a good start has is lost before the search is cold.
        const double hot = 3e-4 * best_seconds_;
        const double cold = 2e-5 * best_seconds_;
        const std::int64_t check = std::max<std::int64_t>(1, moves / kChecks);
        for (std::int64_t move = 0; move < moves; ++move) {
            const double left = static_cast<double>(moves - move) / static_cast<double>(moves);
            allowance_ = 2 * random_.uniform() * (cold + (hot - cold) * left * left * left);
            try_one();
            if ((move + 1) % check == 0) {
                keep_best();
            }
        }
        keep_best();
        return std::move(best_);
    }

private:
    static constexpr std::int64_t kChecks = 100;  // how often the state may become the best

    struct Place {
        std::size_t round = 0;
        std::size_t group = 0;
        bool operator==(const Place&) const = default;
    };

    RoundState& at(const Place& place) { return rounds_[place.round]; }
    const RoundGroup& group_at(const Place& place) const {
        return rounds_[place.round].groups()[place.group];
    }
    Load load_at(std::int32_t sequence) const {
        return load_of(problem_.sequences[static_cast<std::size_t>(sequence)]);
    }

    void keep_best() {
        const double seconds = total_seconds(rounds_);
        if (seconds < best_seconds_) {
            best_seconds_ = seconds;
            best_ = rounds_;
        }
    }

    // Even rounds have room for more later: what is measured is their length, and how evenly their
    // ranks are busy.
    static double energy(const RoundWorth& worth) { return worth.seconds + 0.2 * worth.spread; }

    std::optional<Place> any_group() {
        Place place{.round = random_.below(rounds_.size())};
        const std::size_t count = rounds_[place.round].groups().size();
        if (count == 0) {
            return std::nullopt;
        }
        place.group = random_.below(count);
        return place;
    }
    // Half of the time the one that its round waits for.
    std::optional<Place> some_group() {
        auto place = any_group();
        if (place && random_.uniform() < 0.5) {
            place->group = at(*place).longest_group();
        }
        return place;
    }
    // Half of the time in the same round.
    std::optional<Place> other_group(const Place& place) {
        auto other = any_group();
        if (random_.uniform() < 0.5) {
            other = Place{place.round, random_.below(at(place).groups().size())};
        }
        return other == place ? std::nullopt : other;
    }

    GroupChange changed(const Place& place, const Load& load) const {
        const RoundGroup& group = group_at(place);
        return {.group = place.group,
                .degree_index = group.degree_index,
                .load = load,
                .slowdown = group.slowdown};
    }

    bool accepts(double before, double after) const { return after - before <= allowance_; }

    // Whether two groups may have these loads.
    bool may_become(const Place& a, const Load& load_a, const Place& b, const Load& load_b) {
        const GroupChange change_a = changed(a, load_a);
        const GroupChange change_b = changed(b, load_b);
        if (a.round == b.round) {
            const GroupChange both[] = {change_a, change_b};
            return accepts(energy(at(a).worth()), energy(at(a).with(both)));
        }
        const double before = energy(at(a).worth()) + energy(at(b).worth());
        const double after = energy(at(a).with({&change_a, 1}));
        return accepts(before, after) &&
               accepts(before, after + energy(at(b).with({&change_b, 1})));
    }

    void settle(const Place& a, const Place& b) {
        if (a.round == b.round) {  // the later one first: closing moves the last group
            for (const std::size_t group :
                 {std::max(a.group, b.group), std::min(a.group, b.group)}) {
                close_if_empty({a.round, group});
            }
        } else {
            close_if_empty(a);
            close_if_empty(b);
        }
        at(a).weigh();
        at(b).weigh();
    }
    void close_if_empty(const Place& place) {
        if (group_at(place).sequences.empty()) {
            at(place).close(place.group);
        }
    }

    void try_one() {
        const double what = random_.uniform();
        if (what < 0.35) {
            try_shift();
        } else if (what < 0.75) {
            try_exchange();
        } else if (what < 0.80) {
            try_open();
        } else if (what < 0.85) {
            try_exchange_work();
        } else if (what < 0.90) {
            try_merge();
        } else if (what < 0.95) {
            try_split();
        } else {
            try_move_group();
        }
    }

    void try_shift() {
        const auto from = some_group();
        const auto to = from ? other_group(*from) : std::nullopt;
        if (!to) {
            return;
        }
        const std::size_t position = random_.below(group_at(*from).sequences.size());
        const std::int32_t sequence = group_at(*from).sequences[position];
        const Load load = load_at(sequence);
        if (may_become(*from, group_at(*from).load - load, *to, group_at(*to).load + load)) {
            at(*from).take(from->group, position, load);
            at(*to).add(to->group, sequence, load);
            settle(*from, *to);
        }
    }

    void try_exchange() {
        const auto a = some_group();
        const auto b = a ? other_group(*a) : std::nullopt;
        if (!b) {
            return;
        }
        const std::size_t position_a = random_.below(group_at(*a).sequences.size());
        const std::size_t position_b = random_.below(group_at(*b).sequences.size());
        const std::int32_t first = group_at(*a).sequences[position_a];
        const std::int32_t second = group_at(*b).sequences[position_b];
        const Load load_a = load_at(first);
        const Load load_b = load_at(second);
        if (may_become(*a, group_at(*a).load - load_a + load_b, *b,
                       group_at(*b).load - load_b + load_a)) {
            at(*a).take(a->group, position_a, load_a);
            at(*b).take(b->group, position_b, load_b);
            at(*a).add(a->group, second, load_b);
            at(*b).add(b->group, first, load_a);
            at(*a).weigh();
            at(*b).weigh();
        }
    }

    // Groups of one round or two keep their ranks and get each other's sequences.
    void try_exchange_work() {
        const auto a = some_group();
        const auto b = a ? other_group(*a) : std::nullopt;
        if (!b || !may_become(*a, group_at(*b).load, *b, group_at(*a).load)) {
            return;
        }
        const std::vector<std::int32_t> first = group_at(*a).sequences;
        const std::vector<std::int32_t> second = group_at(*b).sequences;
        for (const auto& [place, out, in] :
             {std::tie(*a, first, second), std::tie(*b, second, first)}) {
            for (std::size_t i = out.size(); i-- > 0;) {
                at(place).take(place.group, i, load_at(out[i]));
            }
            for (const std::int32_t sequence : in) {
                at(place).add(place.group, sequence, load_at(sequence));
            }
        }
        at(*a).weigh();
        at(*b).weigh();
    }

    // A sequence alone on ranks that are free.
    void try_open() {
        const auto from = some_group();
        if (!from) {
            return;
        }
        const std::size_t round = random_.below(rounds_.size());
        const std::size_t degree_index = random_.below(problem_.degrees.size());
        const auto ranks = rounds_[round].room_for(problem_.degrees[degree_index]);
        if (!ranks) {
            return;
        }
        const std::size_t position = random_.below(group_at(*from).sequences.size());
        const std::int32_t sequence = group_at(*from).sequences[position];
        const Load load = load_at(sequence);
        const GroupChange less = changed(*from, group_at(*from).load - load);
        const GroupChange more{.group = rounds_[round].groups().size(),
                               .degree_index = degree_index,
                               .load = load,
                               .slowdown = 1 / problem_.topology.slowest(*ranks)};
        if (!may_change(from->round, less, round, more)) {
            return;
        }
        at(*from).take(from->group, position, load);
        rounds_[round].open({.degree_index = degree_index,
                             .world_ranks = *ranks,
                             .sequences = {sequence},
                             .load = load});
        close_if_empty(*from);
        at(*from).weigh();
        rounds_[round].weigh();
    }

    bool may_change(std::size_t round_a,
                    const GroupChange& change_a,
                    std::size_t round_b,
                    const GroupChange& change_b) const {
        const RoundState& a = rounds_[round_a];
        const RoundState& b = rounds_[round_b];
        if (round_a == round_b) {
            const GroupChange both[] = {change_a, change_b};
            return accepts(energy(a.worth()), energy(a.with(both)));
        }
        return accepts(energy(a.worth()) + energy(b.worth()),
                       energy(a.with({&change_a, 1})) + energy(b.with({&change_b, 1})));
    }

    std::optional<std::size_t> index_of(std::size_t degree) const {
        const auto found = std::lower_bound(problem_.degrees.begin(), problem_.degrees.end(),
                                            static_cast<int>(degree));
        if (found == problem_.degrees.end() || *found != static_cast<int>(degree)) {
            return std::nullopt;
        }
        return static_cast<std::size_t>(found - problem_.degrees.begin());
    }

    // Two groups of a round on the ranks of both.
    void try_merge() {
        const auto a = any_group();
        if (!a || at(*a).groups().size() < 2) {
            return;
        }
        const Place b{a->round, random_.below(at(*a).groups().size())};
        if (b == *a) {
            return;
        }
        std::vector<int> ranks = group_at(*a).world_ranks;
        ranks.insert(ranks.end(), group_at(b).world_ranks.begin(), group_at(b).world_ranks.end());
        std::sort(ranks.begin(), ranks.end());
        const auto degree_index = index_of(ranks.size());
        if (!degree_index || !problem_.topology.obeys_node_rule(ranks)) {
            return;
        }
        const Load load = group_at(*a).load + group_at(b).load;
        const GroupChange changes[] = {{.group = a->group,
                                        .degree_index = *degree_index,
                                        .load = load,
                                        .slowdown = 1 / problem_.topology.slowest(ranks)},
                                       changed(b, {})};
        if (!accepts(energy(at(*a).worth()), energy(at(*a).with(changes)))) {
            return;
        }
        std::vector<std::int32_t> sequences = group_at(*a).sequences;
        sequences.insert(sequences.end(), group_at(b).sequences.begin(),
                         group_at(b).sequences.end());
        at(*a).close(std::max(a->group, b.group));
        at(*a).close(std::min(a->group, b.group));
        at(*a).open({.degree_index = *degree_index,
                     .world_ranks = std::move(ranks),
                     .sequences = std::move(sequences),
                     .load = load});
        at(*a).weigh();
    }

    // Sequences go, longest first, to the half that has less work a rank.
    void try_split() {
        const auto place = any_group();
        if (!place || group_at(*place).world_ranks.size() < 2) {
            return;
        }
        const RoundGroup& whole = group_at(*place);
        const std::size_t count = 1 + random_.below(whole.world_ranks.size() - 1);
        const auto index_a = index_of(count);
        const auto index_b = index_of(whole.world_ranks.size() - count);
        if (!index_a || !index_b) {
            return;
        }
        const auto middle = whole.world_ranks.begin() + static_cast<std::ptrdiff_t>(count);
        RoundGroup a{.degree_index = *index_a, .world_ranks = {whole.world_ranks.begin(), middle}};
        RoundGroup b{.degree_index = *index_b, .world_ranks = {middle, whole.world_ranks.end()}};
        if (!problem_.topology.obeys_node_rule(a.world_ranks) ||
            !problem_.topology.obeys_node_rule(b.world_ranks)) {
            return;
        }
        std::vector<std::int32_t> order = whole.sequences;
        std::sort(order.begin(), order.end(), [&](std::int32_t x, std::int32_t y) {
            const std::int64_t tokens_x = load_at(x).tokens;
            const std::int64_t tokens_y = load_at(y).tokens;
            return tokens_x != tokens_y ? tokens_x > tokens_y : x < y;
        });
        for (const std::int32_t sequence : order) {
            const Load load = load_at(sequence);
            const double tokens_a = static_cast<double>(a.load.tokens + load.tokens);
            const double tokens_b = static_cast<double>(b.load.tokens + load.tokens);
            RoundGroup& half = tokens_a * static_cast<double>(b.world_ranks.size()) <=
                                       tokens_b * static_cast<double>(a.world_ranks.size())
                                   ? a
                                   : b;
            half.sequences.push_back(sequence);
            half.load += load;
        }
        replace(*place, std::move(a), std::move(b));
    }

    void replace(const Place& place, RoundGroup a, RoundGroup b) {
        const GroupChange changes[] = {{.group = place.group,
                                        .degree_index = a.degree_index,
                                        .load = a.load,
                                        .slowdown = 1 / problem_.topology.slowest(a.world_ranks)},
                                       {.group = at(place).groups().size(),
                                        .degree_index = b.degree_index,
                                        .load = b.load,
                                        .slowdown = 1 / problem_.topology.slowest(b.world_ranks)}};
        if (!accepts(energy(at(place).worth()), energy(at(place).with(changes)))) {
            return;
        }
        at(place).close(place.group);
        for (RoundGroup* half : {&a, &b}) {
            if (!half->sequences.empty()) {
                at(place).open(std::move(*half));
            }
        }
        at(place).weigh();
    }

    // To free ranks, of any degree, of any round.
    void try_move_group() {
        const auto from = some_group();
        if (!from) {
            return;
        }
        const std::size_t round = random_.below(rounds_.size());
        const std::size_t degree_index = random_.below(problem_.degrees.size());
        RoundState emptied = at(*from);  // its own ranks are free too
        RoundGroup group = emptied.close(from->group);
        const RoundState& target = round == from->round ? emptied : rounds_[round];
        auto ranks = target.room_for(problem_.degrees[degree_index]);
        if (!ranks) {
            return;
        }
        const double slowdown = 1 / problem_.topology.slowest(*ranks);
        const GroupChange gone = changed(*from, {});
        GroupChange come{.group = rounds_[round].groups().size(),
                         .degree_index = degree_index,
                         .load = group.load,
                         .slowdown = slowdown};
        if (!may_change(from->round, gone, round, come)) {
            return;
        }
        group.degree_index = degree_index;
        group.world_ranks = std::move(*ranks);
        at(*from).close(from->group);
        rounds_[round].open(std::move(group));
        at(*from).weigh();
        rounds_[round].weigh();
    }

    const Problem& problem_;
    std::vector<RoundState> rounds_;
    std::vector<RoundState> best_;
    double best_seconds_;
    double allowance_ = 0;
    FastRandom random_;
};

}  // namespace

std::vector<RoundState> improve_rounds(const Problem& problem,
                                       std::vector<RoundState> rounds,
                                       std::int64_t moves,
                                       std::uint64_t seed) {
    return rounds.empty() ? rounds : RoundAnnealing(problem, std::move(rounds), seed).run(moves);
}

}  // namespace dcp::plan
