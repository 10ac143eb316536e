// Whole plans in one go, for a time that they should not exceed. Many constructions with different
// habits are the planner's first strength; the best few are then improved.
#pragma once

#include <vector>

#include "core/plan/draft.hpp"

namespace dcp::plan {

struct Habits {
    // What a gang's ranks are charged for time that is too short for another micro-batch, from 0
    // (nothing) to 1 (as if it were work).
    double waste_share = 0.5;
    // Sequences longer than this part of what one rank can do in the time become gangs although one
    // rank would do.
    double solo_share = 1.0;
    // Of the ranks' free time, how much more is opened for single-rank micro-batches than the
    // remaining work needs.
    double spare_share = 0.01;
};

class Constructor {
public:
    Constructor(const Problem& problem, const MicroCosts& costs);

    // Every sequence is somewhere; the busiest rank may exceed `target_seconds`.
    Draft construct(double target_seconds, const Habits& habits) const;

private:
    struct Gang {  // a micro-batch without ranks
        std::size_t degree_index;
        std::vector<std::int32_t> sequences;
        Load load;
        double seconds;
    };
    struct Choice {
        std::size_t degree_index;
        double charge;
    };

    bool is_solo(const Load& load, double target_seconds, const Habits& habits) const;
    std::vector<Gang> gangs(double target_seconds,
                            const Habits& habits,
                            std::vector<std::int32_t>& short_ones) const;
    Choice best_new_gang(const Load& load, double target_seconds, const Habits& habits) const;
    std::vector<int> place(const Draft& draft, int degree, double seconds) const;
    void fill(Draft& draft,
              const std::vector<std::int32_t>& short_ones,
              double target_seconds,
              const Habits& habits) const;

    const Problem& problem_;
    const MicroCosts& costs_;
    std::vector<std::int32_t> longest_first_;
    double fixed_seconds_ = 0;  // of a micro-batch on one rank, or of the least degree
};

}  // namespace dcp::plan
