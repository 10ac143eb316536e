#include "core/plan/improve.hpp"

#include <algorithm>
#include <utility>

#include "core/plan/fast_random.hpp"

namespace dcp::plan {

namespace {

class Annealing {
public:
    Annealing(Draft draft,
              const LengthOrder& order,
              double bound_seconds,
              const ImproveEffort& effort)
        : draft_(std::move(draft)),
          order_(order),
          best_busiest_(draft_.busiest()),
          bound_(bound_seconds),
          gangs_stay_(effort.gangs_stay),
          random_(effort.seed) {
        where_.resize(order.sequences.size());
        for (std::size_t bin = 0; bin < draft_.bins().size(); ++bin) {
            for (const std::int32_t sequence : draft_.bins()[bin].sequences) {
                where_[static_cast<std::size_t>(sequence)] = static_cast<std::uint32_t>(bin);
            }
            const std::vector<int>& ranks = draft_.bins()[bin].world_ranks;
            only_rank_.push_back(ranks.size() == 1 ? ranks.front() : kSeveral);
        }
        step_ = 0.2 * (best_busiest_ - bound_);
        set_target();
    }

    Draft run(std::int64_t moves) {
        // A move of a small sequence changes the excess by some thousandths of the makespan.
        const double hot = 4e-3 * target_;
        const double cold = 2e-5 * target_;
        const std::int64_t patience = std::max<std::int64_t>(1, moves / kRounds);
        std::int64_t last_change = 0;  // of the target
        for (std::int64_t move = 0; move < moves && !is_done_; ++move) {
            // Thresholds drawn evenly, falling with the third power: only exact arithmetic decides,
            // so no mathematical library can lead the search elsewhere.
            const double left = static_cast<double>(moves - move) / static_cast<double>(moves);
            const double allowance =
                2 * random_.uniform() * (cold + (hot - cold) * left * left * left);
            const double what = random_.uniform();
            if (what < kBinMoves) {
                try_bins(allowance);
            } else if (what < kBinMoves + kAlikeMoves) {
                try_alike(allowance);
            } else {
                try_sequences(allowance);
            }
            if (over_.empty()) {
                record();
                last_change = move;
            } else if (move - last_change > patience) {
                // Too much was asked for: something between that and what was reached.
                step_ /= 2;
                set_target();
                last_change = move;
            }
        }
        undo();
        return std::move(draft_);
    }

private:
    double excess(double busy) const { return std::max(0.0, busy - target_); }

    void set_target() {
        const double reached = best_busiest_;
        is_done_ = reached <= bound_ * (1 + 1e-5);
        target_ = reached - std::max(step_, 1e-6 * reached);
        over_.clear();
        place_.assign(draft_.busy().size(), kNowhere);
        for (std::size_t rank = 0; rank < place_.size(); ++rank) {
            note(rank);
        }
    }

    void record() {
        best_busiest_ = draft_.busiest();  // below the target, so below what it was
        since_best_.clear();
        step_ = std::min(step_, 0.2 * (best_busiest_ - bound_));
        set_target();
    }

    // Back to the best draft. Bins opened since then stay, empty.
    void undo() {
        for (auto change = since_best_.rbegin(); change != since_best_.rend(); ++change) {
            if (change->sequence >= 0) {
                shift(change->to, change->sequence, change->from, change->other);
            } else {
                draft_.relocate(change->to, static_cast<int>(change->from));
            }
        }
    }

    std::size_t position(std::size_t bin, std::int32_t sequence) const {
        const std::vector<std::int32_t>& own = draft_.bins()[bin].sequences;
        return static_cast<std::size_t>(
            std::distance(own.begin(), std::find(own.begin(), own.end(), sequence)));
    }

    // A sequence to another bin and, if not -1, one from there back.
    void shift(std::size_t from, std::int32_t sequence, std::size_t to, std::int32_t other) {
        where_[static_cast<std::size_t>(sequence)] = static_cast<std::uint32_t>(to);
        const Load load = load_of_sequence(sequence);
        if (other < 0) {
            draft_.move(from, position(from, sequence), load, to);
            return;
        }
        where_[static_cast<std::size_t>(other)] = static_cast<std::uint32_t>(from);
        draft_.exchange(from, position(from, sequence), load, to, position(to, other),
                        load_of_sequence(other));
    }

    void shift_and_note(std::size_t from,
                        std::int32_t sequence,
                        std::size_t to,
                        std::int32_t other) {
        shift(from, sequence, to, other);
        since_best_.push_back({.sequence = sequence, .other = other, .from = from, .to = to});
        for (const std::size_t bin : {from, to}) {
            if (only_rank_[bin] != kSeveral) {
                note(static_cast<std::size_t>(only_rank_[bin]));
                continue;
            }
            for (const int rank : draft_.bins()[bin].world_ranks) {
                note(static_cast<std::size_t>(rank));
            }
        }
    }

    void relocate(std::size_t bin, std::size_t from, std::size_t to) {
        draft_.relocate(bin, static_cast<int>(to));
        only_rank_[bin] = static_cast<int>(to);
        since_best_.push_back({.sequence = -1, .other = -1, .from = from, .to = bin});
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
    double change(std::size_t bin, double more, std::size_t other, double more_other) const {
        const int rank = only_rank_[bin];
        const int other_rank = only_rank_[other];
        if (rank == kSeveral || other_rank == kSeveral) {
            return change_of_groups(draft_.bins()[bin].world_ranks, more,
                                    draft_.bins()[other].world_ranks, more_other);
        }
        return rank == other_rank ? change_of(rank, more + more_other)
                                  : change_of(rank, more) + change_of(other_rank, more_other);
    }
    double change_of_groups(const std::vector<int>& a,
                            double more_a,
                            const std::vector<int>& b,
                            double more_b) const {
        double sum = 0;
        std::size_t j = 0;
        for (const int rank : a) {
            while (j < b.size() && b[j] < rank) {
                sum += change_of(b[j++], more_b);
            }
            const bool is_shared = j < b.size() && b[j] == rank;
            sum += change_of(rank, more_a + (is_shared ? more_b : 0));
            j += is_shared ? 1 : 0;
        }
        while (j < b.size()) {
            sum += change_of(b[j++], more_b);
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
        return draft_.bins()[bin].sequences.empty() || stays(bin) ? draft_.bins().size() : bin;
    }

    // Whether the sequences of a bin are not to change.
    bool stays(std::size_t bin) const { return gangs_stay_ && only_rank_[bin] == kSeveral; }

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
            return stays(bins[choice]) ? draft_.bins().size() : bins[choice];
        }
        for (const std::size_t bin : bins) {
            if (draft_.bins()[bin].sequences.empty()) {
                return bin;
            }
        }
        if (draft_.costs().degree(0) != 1 || draft_.costs().most_tokens(0) == 0) {
            return draft_.bins().size();
        }
        only_rank_.push_back(static_cast<int>(rank));
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
        relocate(moved, from, to);
        if (back != none) {
            relocate(back, to, from);
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
        return only_rank_[bin] != kSeveral && !draft_.bins()[bin].sequences.empty()
                   ? bin
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
        if (!(change(from, more_source, to, more_target) <= allowance)) {
            return;  // infinity where something does not fit
        }
        shift_and_note(from, source.sequences[at], to, is_exchange ? target.sequences[back] : -1);
    }

    // A sequence changes places with one of nearly its length: where micro-batches are full, that
    // is what still fits.
    void try_alike(double allowance) {
        const std::size_t from = draw_source();
        if (from == draft_.bins().size()) {
            return;
        }
        const Bin& source = draft_.bins()[from];
        const std::size_t at = random_.below(source.sequences.size());
        const std::size_t place = order_.places[static_cast<std::size_t>(source.sequences[at])];
        const std::size_t reach = std::size_t{2} << (2 * random_.below(4));  // 2, 8, 32, 128
        const std::size_t shift = 1 + random_.below(reach);
        const std::size_t other_place = random_.uniform() < 0.7 ? place - shift : place + shift;
        if (other_place >= order_.sequences.size()) {
            return;
        }
        const std::int32_t other = order_.sequences[other_place];
        const std::size_t to = where_[static_cast<std::size_t>(other)];
        if (to == from || stays(to)) {
            return;
        }
        const Bin& target = draft_.bins()[to];
        const Load load = load_of_sequence(source.sequences[at]);
        const Load back_load = load_of_sequence(other);
        const double more_source =
            draft_.seconds(source, source.load - load + back_load) - source.seconds;
        const double more_target =
            draft_.seconds(target, target.load + load - back_load) - target.seconds;
        if (!(change(from, more_source, to, more_target) <= allowance)) {
            return;
        }
        shift_and_note(from, source.sequences[at], to, other);
    }

    double speed(std::size_t rank) const {
        return draft_.problem().topology.speed(static_cast<int>(rank));
    }

    Load load_of_sequence(std::int32_t sequence) const {
        return order_.loads[static_cast<std::size_t>(sequence)];
    }

    static constexpr std::int64_t kRounds = 12;
    static constexpr double kBinMoves = 0.2;
    static constexpr double kAlikeMoves = 0.4;
    static constexpr std::size_t kNowhere = ~std::size_t{0};
    static constexpr int kSeveral = -1;

    struct Change {
        std::int32_t sequence;  // -1: a bin went from rank `from`
        std::int32_t other;     // what came back; -1: nothing
        std::size_t from;       // bin, or rank
        std::size_t to;         // bin
    };

    Draft draft_;
    const LengthOrder& order_;
    double best_busiest_;
    std::vector<Change> since_best_;  // what made this draft of the best one
    double bound_;
    bool gangs_stay_;
    double target_ = 0;
    double step_ = 0;  // how far below the best draft the target is
    bool is_done_ = false;
    FastRandom random_;
    std::vector<std::uint32_t> where_;  // the bin of each sequence
    std::vector<int> only_rank_;        // of each bin; kSeveral: it has more than one
    std::vector<std::size_t> over_;     // ranks that are busy for longer than the target
    std::vector<std::size_t> place_;    // of each rank in over_
};

}  // namespace

LengthOrder::LengthOrder(const Problem& problem) : places(problem.sequences.size()) {
    std::vector<std::pair<std::int64_t, std::int32_t>> by_tokens;
    by_tokens.reserve(places.size());
    loads.reserve(places.size());
    for (const Sequence& sequence : problem.sequences) {
        loads.push_back(load_of(sequence));
        by_tokens.emplace_back(sequence.tokens, static_cast<std::int32_t>(by_tokens.size()));
    }
    std::sort(by_tokens.begin(), by_tokens.end());
    sequences.reserve(places.size());
    for (const auto& [tokens, sequence] : by_tokens) {
        places[static_cast<std::size_t>(sequence)] = static_cast<std::uint32_t>(sequences.size());
        sequences.push_back(sequence);
    }
}

Draft improve(Draft draft, double bound_seconds, const ImproveEffort& effort) {
    const LengthOrder order(draft.problem());
    return improve(std::move(draft), order, bound_seconds, effort);
}

Draft improve(Draft draft,
              const LengthOrder& order,
              double bound_seconds,
              const ImproveEffort& effort) {
    return Annealing(std::move(draft), order, bound_seconds, effort).run(effort.moves);
}

}  // namespace dcp::plan
