#include "core/plan/arrange.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/plan/draft.hpp"
#include "core/plan/fast_random.hpp"
#include "core/plan/rooms.hpp"

namespace dcp::plan {

namespace {

class Arranging {
public:
    Arranging(const Problem& problem,
              const MicroCosts& costs,
              Arrangement start,
              double bound_seconds,
              const ArrangeEffort& effort)
        : problem_(problem),
          costs_(costs),
          bound_(bound_seconds),
          effort_(effort),
          random_(effort.seed),
          placer_(problem.topology),
          pool_(std::move(start.short_ones)),
          pool_load_(costs.most_tokens(0)),
          rooms_(costs, Load{}, 0, bound_seconds) {
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
        for (std::size_t i = 0; i < costs.num_degrees(); ++i) {
            const int degree = costs.degree(i);
            const int node = problem.topology.ranks_per_node;
            const bool is_nested = node % degree == 0 || degree % node == 0;
            if (degree > 1 && (is_nested || !effort.nested_degrees)) {
                degrees_.push_back(i);
            }
        }
    }

    Arrangement run() {
        reached_ = least_time();
        step_ = reached_;
        save();
        lower_target();
        if (degrees_.empty()) {
            return best();
        }
        double value = judge();
        const std::int64_t patience = std::max<std::int64_t>(1, effort_.moves / kRounds);
        std::int64_t last_change = 0;  // of the target
        for (std::int64_t move = 0; move < effort_.moves && !is_done_; ++move) {
            const double left =
                static_cast<double>(effort_.moves - move) / static_cast<double>(effort_.moves);
            // In rank-seconds; a micro-batch more or less is what most moves are about.
            const double hot = kHot * costs_.levels(0).front().fixed_seconds + 1e-4 * target_;
            const double allowance = 2 * random_.uniform() * hot * left * left;
            if (move - last_change > patience) {
                // Too much was asked for: something between that and what was reached.
                step_ /= 2;
                set_target();
                value = judge();
                last_change = move;
            }
            if (!try_one(value + allowance)) {
                continue;
            }
            value = value_;
            if (value <= 0) {
                reached_ = std::min(reached_, least_time());
                save();
                lower_target();
                value = judge();
                last_change = move;
            }
        }
        return best();
    }

private:
    static constexpr double kHot = 0.5;
    static constexpr std::int64_t kRounds = 12;
    static constexpr double kSpreadUse = 0.6;
    static constexpr std::size_t kNone = ~std::size_t{0};

    struct Member {
        std::size_t degree_index = 0;
        std::vector<std::int32_t> sequences;
        Load load;
        double seconds = 0;
        int choice = 0;
        bool is_gone = false;
    };

    Load load_of_sequence(std::int32_t sequence) const {
        return load_of(problem_.sequences[static_cast<std::size_t>(sequence)]);
    }

    // How far squares a token lie from their mean, in parts of the mean, weighted by tokens.
    double spread_of_lengths() const {
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

    // Wide before narrow, long before short. Most of the order is as it was.
    void sort_order() {
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

    // What decides about a place in the order.
    struct Placed {
        std::size_t degree_index;
        double seconds;
        int choice;
        bool operator==(const Placed&) const = default;
    };

    // Places gangs from the first that is not as it was when `keep_places` was last true.
    void place_all(bool keep_places) {
        sort_order();
        trial_.clear();
        for (const std::size_t i : order_) {
            const Member& gang = gangs_[i];
            if (!gang.is_gone) {
                trial_.push_back({gang.degree_index, gang.seconds, gang.choice});
            }
        }
        std::size_t same = 0;
        while (same < std::min(trial_.size(), placed_.size()) && trial_[same] == placed_[same]) {
            ++same;
        }
        if (states_.empty()) {
            states_.push_back(placer_.state());
        }
        placer_.restore(states_[same]);
        if (keep_places) {
            placed_ = trial_;
            states_.resize(placed_.size() + 1);
        }
        for (std::size_t i = same; i < trial_.size(); ++i) {
            const Placed& gang = trial_[i];
            placer_.choose(costs_.degree(gang.degree_index), gang.choice, gang.seconds);
            placer_.occupy(gang.seconds);
            if (keep_places) {
                states_[i + 1] = placer_.state();
            }
        }
    }

    // Tokens that find no room, in the mixture where most do not.
    double missing_within(double makespan) const {
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

    // Rank-seconds that are missing for all to be done by the target time.
    double judge() {
        place_all(/*keep_places=*/false);
        double over = 0;
        for (const double ready : placer_.ready()) {
            over += std::max(0.0, ready - target_);
        }
        return over + missing_within(target_) * rooms_.seconds_a_token();
    }

    // Least time in which the short sequences find room behind what the gangs do.
    double least_time() {
        place_all(/*keep_places=*/true);
        double low = *std::max_element(placer_.ready().begin(), placer_.ready().end());
        rooms_ = Rooms(costs_, pool_load_.load(), spread_, std::max(low, bound_));
        const auto is_enough = [&](double makespan) { return missing_within(makespan) <= 0; };
        if (pool_.empty() || is_enough(low)) {
            return std::max(low, 1e-9);
        }
        double high = std::max(low, bound_);
        while (!is_enough(high)) {
            high *= 1.3;
            if (high > 2.5 * std::max(low, bound_)) {
                rooms_ = Rooms(costs_, pool_load_.load(), spread_, high);
            }
        }
        for (int halving = 0; halving < 20; ++halving) {
            const double middle = (low + high) / 2;
            (is_enough(middle) ? high : low) = middle;
        }
        return high;
    }

    void lower_target() {
        step_ = std::min(step_, 0.15 * (reached_ - bound_));
        set_target();
    }

    void set_target() {
        is_done_ = reached_ <= bound_ * (1 + 1e-5);
        target_ = reached_ - std::max(step_, 1e-5 * reached_);
        rooms_ = Rooms(costs_, pool_load_.load(), spread_, target_);
    }

    void save() {
        saved_ = gangs_;
        saved_pool_ = pool_;
    }

    Arrangement best() {
        gangs_ = std::move(saved_);
        order_.clear();
        sort_order();
        placer_.clear();
        Arrangement result{.gangs = {}, .short_ones = std::move(saved_pool_), .seconds = reached_};
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

    std::size_t draw_gang() {
        if (gangs_.empty()) {
            return kNone;
        }
        const std::size_t i = random_.below(gangs_.size());
        return gangs_[i].is_gone ? kNone : i;
    }

    bool try_one(double most) {
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

    bool keep(double most) {
        value_ = judge();
        if (value_ > most) {
            return false;
        }
        place_all(/*keep_places=*/true);
        return true;
    }

    bool try_choice(double most) {
        const std::size_t i = draw_gang();
        if (i == kNone) {
            return false;
        }
        const int before = std::exchange(gangs_[i].choice, static_cast<int>(random_.below(6)));
        if (before == gangs_[i].choice || keep(most)) {
            return before != gangs_[i].choice;
        }
        gangs_[i].choice = before;
        return false;
    }

    bool try_degree(double most) {
        const std::size_t i = draw_gang();
        if (i == kNone) {
            return false;
        }
        Member& gang = gangs_[i];
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
        if (!(seconds <= target_ * 1.1)) {
            return false;
        }
        const Member before{.degree_index = gang.degree_index,
                            .sequences = {},
                            .load = {},
                            .seconds = gang.seconds,
                            .choice = gang.choice};
        gang.degree_index = index;
        gang.seconds = seconds;
        if (random_.uniform() < 0.5) {
            gang.choice = 0;
        }
        if (keep(most)) {
            return true;
        }
        gang.degree_index = before.degree_index;
        gang.seconds = before.seconds;
        gang.choice = before.choice;
        return false;
    }

    bool fits_one_rank(std::int32_t sequence) const {
        const Load load = load_of_sequence(sequence);
        return load.tokens <= costs_.most_tokens(0) && costs_.seconds(0, load) <= target_;
    }

    // A sequence of a gang leaves, one of the pool joins, or both.
    bool try_sequences(double most) {
        const std::size_t i = draw_gang();
        if (i == kNone) {
            return false;
        }
        const std::size_t other = random_.uniform() < 0.3 ? draw_gang() : kNone;
        if (other != kNone) {
            return other != i && try_between(i, other, most);
        }
        Member& gang = gangs_[i];
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
        const Load out = leaves ? load_of_sequence(gang.sequences[at]) : Load{};
        const Load in = joins ? load_of_sequence(pool_[from]) : Load{};
        if (!reload(gang, gang.load - out + in)) {
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
            reload(gang, gang.load + out - in);
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

    bool try_between(std::size_t i, std::size_t j, double most) {
        Member& a = gangs_[i];
        Member& b = gangs_[j];
        const bool is_exchange = random_.uniform() < 0.5;
        if (!is_exchange && a.sequences.size() < 2) {
            return false;
        }
        const std::size_t at = random_.below(a.sequences.size());
        const std::size_t back = random_.below(b.sequences.size());
        const Load out = load_of_sequence(a.sequences[at]);
        const Load in = is_exchange ? load_of_sequence(b.sequences[back]) : Load{};
        const Load load_a = a.load;
        const Load load_b = b.load;
        if (!reload(a, load_a - out + in)) {
            return false;
        }
        if (!reload(b, load_b + out - in)) {
            reload(a, load_a);
            return false;
        }
        if (!keep(most)) {
            reload(a, load_a);
            reload(b, load_b);
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

    // False, and nothing changed, where the gang cannot hold the load in time.
    bool reload(Member& gang, const Load& load) const {
        const double seconds = costs_.seconds(gang.degree_index, load);
        if (!(seconds <= 1.1 * target_)) {
            return false;
        }
        gang.load = load;
        gang.seconds = seconds;
        return true;
    }

    // A gang inside a node, filled with sequences of the pool.
    bool try_opening(double most) {
        const std::size_t index =
            degrees_[random_.below(std::min<std::size_t>(degrees_.size(), 7))];
        if (pool_.size() < 2 || costs_.most_tokens(index) == 0) {
            return false;
        }
        Member gang{.degree_index = index, .sequences = {}, .load = {}, .seconds = 0};
        const std::vector<std::int32_t> pool_before = pool_;
        const Pool load_before = pool_load_;
        const double most_tokens =
            (0.9 + 0.1 * random_.uniform()) * static_cast<double>(costs_.most_tokens(index));
        for (int tries = 12 * costs_.degree(index); tries > 0 && pool_.size() > 1; --tries) {
            std::size_t at = random_.below(pool_.size());
            const std::size_t other = random_.below(pool_.size());
            if (load_of_sequence(pool_[other]).tokens > load_of_sequence(pool_[at]).tokens) {
                at = other;  // long ones gain most
            }
            const Load load = gang.load + load_of_sequence(pool_[at]);
            if (!(costs_.seconds(index, load) <= target_) ||
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
        for (const std::int32_t sequence : gang.sequences) {
            pool_load_.add(load_of_sequence(sequence), -1);
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

    bool try_closing(double most) {
        const std::size_t i = draw_gang();
        if (i == kNone) {
            return false;
        }
        Member& gang = gangs_[i];
        for (const std::int32_t sequence : gang.sequences) {
            if (!fits_one_rank(sequence)) {
                return false;
            }
        }
        gang.is_gone = true;
        const Pool load_before = pool_load_;
        for (const std::int32_t sequence : gang.sequences) {
            pool_load_.add(load_of_sequence(sequence));
        }
        if (keep(most)) {
            pool_.insert(pool_.end(), gang.sequences.begin(), gang.sequences.end());
            return true;
        }
        gang.is_gone = false;
        pool_load_ = load_before;
        return false;
    }

    const Problem& problem_;
    const MicroCosts& costs_;
    double bound_;
    ArrangeEffort effort_;
    FastRandom random_;
    Placer placer_;
    std::vector<std::size_t> degrees_;  // of gangs
    std::vector<Member> gangs_;
    std::vector<std::size_t> order_;
    std::vector<Placed> trial_, placed_;
    std::vector<Placer::State> states_;  // before the gang at each place of placed_, and after all
    std::vector<std::int32_t> pool_;
    Pool pool_load_;
    double spread_ = 0;
    Rooms rooms_;
    double target_ = 0;
    double reached_ = 0;
    double step_ = 0;  // how far below what was reached the target is
    double value_ = 0;
    bool is_done_ = false;
    std::vector<Member> saved_;
    std::vector<std::int32_t> saved_pool_;
};

}  // namespace

Arrangement arrange(const Problem& problem,
                    const MicroCosts& costs,
                    Arrangement start,
                    double bound_seconds,
                    const ArrangeEffort& effort) {
    return Arranging(problem, costs, std::move(start), bound_seconds, effort).run();
}

}  // namespace dcp::plan
