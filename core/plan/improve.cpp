#include "core/plan/improve.hpp"

#include <algorithm>
#include <utility>

#include "core/plan/fast_random.hpp"

namespace dcp::plan {

namespace {

class Annealing {
public:
    Annealing(Draft draft, double bound_seconds, std::uint64_t seed)
        : draft_(std::move(draft)), best_(draft_), bound_(bound_seconds), random_(seed) {
        lower_target();
    }

    Draft run(std::int64_t moves) {
        // A move of a small sequence changes the excess by some thousandths of the makespan.
        const double hot = 4e-3 * target_;
        const double cold = 2e-5 * target_;
        for (std::int64_t move = 0; move < moves && !is_done_; ++move) {
            // Thresholds drawn evenly, falling with the third power: only exact arithmetic decides,
            // so no mathematical library can lead the search elsewhere.
            const double left = static_cast<double>(moves - move) / static_cast<double>(moves);
            const double allowance =
                2 * random_.uniform() * (cold + (hot - cold) * left * left * left);
            if (random_.uniform() < kBinMoves) {
                try_bins(allowance);
            } else {
                try_sequences(allowance);
            }
            if (over_.empty()) {
                record();
            }
        }
        return best_;
    }

private:
    double excess(double busy) const { return std::max(0.0, busy - target_); }

    void lower_target() {
        const double reached = best_.busiest();
        is_done_ = reached <= bound_ * (1 + 1e-5);
        target_ = bound_ + 0.8 * (reached - bound_);
        over_.clear();
        place_.assign(draft_.busy().size(), kNowhere);
        for (std::size_t rank = 0; rank < place_.size(); ++rank) {
            note(rank);
        }
    }

    void record() {
        if (draft_.busiest() < best_.busiest()) {
            best_ = draft_;
        }
        lower_target();
    }

    // Keeps the list of ranks that are busy for too long.
    void note(std::size_t rank) {
        const bool is_over = draft_.busy()[rank] > target_;
        if (is_over == (place_[rank] != kNowhere)) {
            return;
        }
        if (is_over) {
            place_[rank] = over_.size();
            over_.push_back(rank);
        } else {
            over_[place_[rank]] = over_.back();
            place_[over_.back()] = place_[rank];
            over_.pop_back();
            place_[rank] = kNowhere;
        }
    }

    // Change of the summed excess when the ranks of two bins become busy for longer or shorter.
    double change(const Bin& a, double more_a, const Bin& b, double more_b) const {
        double sum = 0;
        std::size_t j = 0;
        for (const int rank : a.world_ranks) {
            while (j < b.world_ranks.size() && b.world_ranks[j] < rank) {
                sum += change_of(b.world_ranks[j++], more_b);
            }
            const bool is_shared = j < b.world_ranks.size() && b.world_ranks[j] == rank;
            sum += change_of(rank, more_a + (is_shared ? more_b : 0));
            j += is_shared ? 1 : 0;
        }
        while (j < b.world_ranks.size()) {
            sum += change_of(b.world_ranks[j++], more_b);
        }
        return sum;
    }
    double change_of(int rank, double more) const {
        const double busy = draft_.busy()[static_cast<std::size_t>(rank)];
        return excess(busy + more) - excess(busy);
    }

    // A bin with sequences of a rank that is busy for too long, mostly; bins().size() if it has
    // none.
    std::size_t draw_source() {
        const std::size_t rank = random_.uniform() < 0.75 ? over_[random_.below(over_.size())]
                                                          : random_.below(draft_.busy().size());
        const auto& bins = draft_.bins_of_rank(static_cast<int>(rank));
        if (bins.empty()) {
            return draft_.bins().size();
        }
        const std::size_t bin = bins[random_.below(bins.size())];
        return draft_.bins()[bin].sequences.empty() ? draft_.bins().size() : bin;
    }

    // Any bin of the less busy of two ranks; a new single one where the rank has no empty one.
    std::size_t draw_target() {
        std::size_t rank = random_.below(draft_.busy().size());
        const std::size_t other = random_.below(draft_.busy().size());
        if (draft_.busy()[other] < draft_.busy()[rank]) {
            rank = other;
        }
        const auto& bins = draft_.bins_of_rank(static_cast<int>(rank));
        const std::size_t choice = random_.below(bins.size() + 1);
        if (choice < bins.size()) {
            return bins[choice];
        }
        for (const std::size_t bin : bins) {
            if (draft_.bins()[bin].sequences.empty()) {
                return bin;
            }
        }
        if (draft_.costs().degree(0) != 1 || draft_.costs().most_tokens(0) == 0) {
            return draft_.bins().size();
        }
        return draft_.open(0, {static_cast<int>(rank)});
    }

    // A single-rank bin of a rank that is busy for too long goes to another rank, or changes places
    // with one there.
    void try_bins(double allowance) {
        const std::size_t from = over_[random_.below(over_.size())];
        const std::size_t to = random_.below(draft_.busy().size());
        const std::size_t none = draft_.bins().size();
        const std::size_t moved = draw_single(from);
        const std::size_t back = random_.uniform() < 0.8 ? draw_single(to) : none;
        if (from == to || moved == none || speed(from) != speed(to)) {
            return;
        }
        const double more =
            draft_.bins()[moved].seconds - (back == none ? 0 : draft_.bins()[back].seconds);
        const double sum =
            change_of(static_cast<int>(from), -more) + change_of(static_cast<int>(to), more);
        if (sum > allowance) {
            return;
        }
        draft_.relocate(moved, static_cast<int>(to));
        if (back != none) {
            draft_.relocate(back, static_cast<int>(from));
        }
        note(from);
        note(to);
    }

    // A single-rank bin with sequences of this rank; bins().size() if the draw is none.
    std::size_t draw_single(std::size_t rank) {
        const auto& bins = draft_.bins_of_rank(static_cast<int>(rank));
        if (bins.empty()) {
            return draft_.bins().size();
        }
        const std::size_t bin = bins[random_.below(bins.size())];
        const Bin& drawn = draft_.bins()[bin];
        return drawn.world_ranks.size() == 1 && !drawn.sequences.empty() ? bin
                                                                         : draft_.bins().size();
    }

    void try_sequences(double allowance) {
        const std::size_t from = draw_source();
        const std::size_t to = draw_target();
        const std::size_t none = draft_.bins().size();
        if (from == to || from == none || to == none) {
            return;
        }
        const Bin& source = draft_.bins()[from];
        const Bin& target = draft_.bins()[to];
        const std::size_t at = random_.below(source.sequences.size());
        const Load load = load_of_sequence(source.sequences[at]);
        const bool is_exchange = !target.sequences.empty() && random_.uniform() < 0.5;
        const std::size_t back = is_exchange ? random_.below(target.sequences.size()) : 0;
        const Load back_load = is_exchange ? load_of_sequence(target.sequences[back]) : Load{};
        const double more_source =
            draft_.seconds(source, source.load - load + back_load) - source.seconds;
        const double more_target =
            draft_.seconds(target, target.load + load - back_load) - target.seconds;
        if (!(change(source, more_source, target, more_target) <= allowance)) {
            return;  // infinity where something does not fit
        }
        const std::int32_t moved = draft_.take(from, at);
        if (is_exchange) {
            draft_.add(from, draft_.take(to, back));
        }
        draft_.add(to, moved);
        for (const std::size_t bin : {from, to}) {
            for (const int rank : draft_.bins()[bin].world_ranks) {
                note(static_cast<std::size_t>(rank));
            }
        }
    }

    double speed(std::size_t rank) const {
        return draft_.problem().topology.speed(static_cast<int>(rank));
    }

    Load load_of_sequence(std::int32_t sequence) const {
        return load_of(draft_.problem().sequences[static_cast<std::size_t>(sequence)]);
    }

    static constexpr double kBinMoves = 0.25;
    static constexpr std::size_t kNowhere = ~std::size_t{0};

    Draft draft_;
    Draft best_;
    double bound_;
    double target_ = 0;
    bool is_done_ = false;
    FastRandom random_;
    std::vector<std::size_t> over_;   // ranks that are busy for longer than the target
    std::vector<std::size_t> place_;  // of each rank in over_
};

}  // namespace

Draft improve(Draft draft, double bound_seconds, std::int64_t moves, std::uint64_t seed) {
    return Annealing(std::move(draft), bound_seconds, seed).run(moves);
}

}  // namespace dcp::plan
