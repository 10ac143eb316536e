// Whole plans in one go, for a time that they should not exceed. Many constructions with different
// habits are the planner's first strength; the best few are then improved.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/arrange.hpp"
#include "core/plan/draft.hpp"
#include "core/plan/gang.hpp"

namespace dcp::plan {

// How many sequences micro-batches take.
enum class Filling : std::uint8_t {
    kFull,     // as many as memory holds, one after the other
    kFullest,  // gangs and packs: the set that fills memory best (fullest.hpp)
    kThrifty,  // spread and packs: no more than makes a token cheapest
};

struct Habits {
    // What a gang's ranks are charged for time that is too short for another micro-batch, from 0
    // (nothing) to 1 (as if it were work).
    double waste_share = 0.5;
    // Sequences longer than this part of what one rank can do in the time become gangs although one
    // rank would do.
    double solo_share = 1.0;
    // Gangs only of degrees that divide a node or are whole nodes: they nest, so nothing waits.
    bool nested_degrees = false;
    // Short sequences fill the gangs first, where that is cheaper than micro-batches of their own.
    bool fill_gangs = true;
    Filling filling = Filling::kFull;
    // Where the other short sequences go. 0: spread over the ranks with most time left. Otherwise
    // first packed tightly, into micro-batches that last at most 1 / packs_a_rank of the time.
    int packs_a_rank = 0;
    // Spread: how much more time is opened for them than the work needs.
    double spare_share = 0.01;
    // Packed: packs that are less full than this are dissolved and packed again for two ranks.
    double merge_share = 0;
};

class Constructor {
public:
    Constructor(const Problem& problem, const MicroCosts& costs);

    // Every sequence is somewhere; the busiest rank may exceed `target_seconds`.
    Draft construct(double target_seconds, const Habits& habits) const;

    // The same in two halves, for arrange() to work in between: gangs without places and what is
    // left for single ranks; and the draft of that.
    Arrangement outline(double target_seconds, const Habits& habits) const;
    Draft construct(const Arrangement& arrangement,
                    double target_seconds,
                    const Habits& habits) const;

private:
    struct Choice {
        std::size_t degree_index;
        double charge;
    };

    bool is_before(std::int32_t a, std::int32_t b) const;  // longer
    bool is_solo(const Load& load, double target_seconds, const Habits& habits) const;
    // Of a gang of all ranks, whose time none has for anything else; of others 0.
    double everybody_seconds(const Gang& gang) const;
    std::vector<Gang> gangs(double target_seconds,
                            const Habits& habits,
                            std::vector<std::int32_t>& short_ones) const;
    void fill_gangs(std::vector<Gang>& gangs,
                    std::vector<std::int32_t>& short_ones,
                    double target_seconds) const;
    Choice best_new_gang(const Load& load, double target_seconds, const Habits& habits) const;
    bool is_nested(std::size_t degree_index) const;
    std::int64_t most_tokens(std::size_t degree_index, Filling filling) const;
    std::vector<Gang> packs(const std::vector<std::int32_t>& sequences,
                            std::size_t degree_index,
                            double most_seconds,
                            Filling filling) const;
    std::vector<Gang> packs_in_turn(const std::vector<std::int32_t>& sequences,
                                    std::size_t degree_index,
                                    double most_seconds,
                                    std::int64_t most_tokens) const;
    std::vector<Gang> fullest_packs(const std::vector<std::int32_t>& sequences,
                                    std::size_t degree_index,
                                    double most_seconds) const;
    std::vector<Gang> mixed_packs(const std::vector<std::int32_t>& short_ones,
                                  double target_seconds,
                                  const Habits& habits) const;
    void open(Draft& draft, std::vector<Gang> gangs) const;
    void spread(Draft& draft,
                const std::vector<std::int32_t>& short_ones,
                double target_seconds,
                const Habits& habits) const;

    const Problem& problem_;
    const MicroCosts& costs_;
    std::vector<std::int32_t> longest_first_;
    double fixed_seconds_ = 0;  // of a micro-batch on one rank, or of the least degree
};

}  // namespace dcp::plan
