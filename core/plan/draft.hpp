// A plan in the making: micro-batches on groups, and how busy every rank is.
//
// Gangs (micro-batches on more than one rank) run before single-rank ones, wide before narrow, and
// a gang is opened where its ranks are ready together or nearly so. The time of a rank is then the
// sum of its micro-batches plus what it waited when its gangs were opened; searches rely on that
// sum, and predicted() has the last word.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/micro_costs.hpp"
#include "core/plan/problem.hpp"

namespace dcp::plan {

struct Bin {  // one micro-batch
    std::size_t degree_index = 0;
    std::vector<int> world_ranks;
    std::vector<std::int32_t> sequences;
    Load load;
    double seconds = 0;   // 0 without sequences: an empty bin is no step
    double slowdown = 1;  // 1 / speed of its slowest rank
};

class Draft {
public:
    Draft(const Problem& problem, const MicroCosts& costs);

    const std::vector<Bin>& bins() const { return bins_; }
    const std::vector<double>& busy() const { return busy_; }  // of every rank
    const std::vector<std::size_t>& bins_of_rank(int world_rank) const {
        return bins_of_rank_[static_cast<std::size_t>(world_rank)];
    }
    double busiest() const;
    const MicroCosts& costs() const { return *costs_; }
    const Problem& problem() const { return *problem_; }

    // What a bin would take with another load: infinity where it does not fit, 0 for no load. On
    // slower ranks everything is slower here, communication too.
    double seconds(const Bin& bin, const Load& load) const {
        return load.tokens == 0 ? 0 : costs_->seconds(bin.degree_index, load) * bin.slowdown;
    }

    // A bin, mostly an empty one, whose ranks (sorted) wait for the last of them.
    std::size_t open(std::size_t degree_index,
                     std::vector<int> world_ranks,
                     std::vector<std::int32_t> sequences = {});

    void add(std::size_t bin, std::int32_t sequence, const Load& load);
    // The sequence at a position to another bin; two change places.
    void move(std::size_t from, std::size_t position, const Load& load, std::size_t to);
    void exchange(std::size_t a,
                  std::size_t position_a,
                  const Load& load_a,
                  std::size_t b,
                  std::size_t position_b,
                  const Load& load_b);

    // Puts a single-rank bin on another rank of the same speed.
    void relocate(std::size_t bin, int world_rank);

    // Steps as opened, empty bins left out, single ranks last.
    std::vector<Step> steps() const;

    // The same micro-batches, opened anew in the order of their steps: what ranks wait for is then
    // what it takes with the sequences that gangs have now.
    static Draft opened_anew(Draft draft);

private:
    void reload(Bin& bin, const Load& load);

    const Problem* problem_;
    const MicroCosts* costs_;
    std::vector<Bin> bins_;
    std::vector<double> busy_;
    std::vector<std::vector<std::size_t>> bins_of_rank_;
};

inline Load operator+(Load a, const Load& b) {
    return a += b;
}
inline Load operator-(const Load& a, const Load& b) {
    return {a.tokens - b.tokens, a.squared_tokens - b.squared_tokens};
}

}  // namespace dcp::plan
