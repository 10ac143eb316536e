// Rounds made for rounds, one after the other: which sequences and groups the next one has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/plan/gang.hpp"
#include "core/plan/micro_costs.hpp"
#include "core/plan/problem.hpp"

namespace dcp::plan {

// Looks at every sequence that is left in every round, so what cannot be is found out at once: of
// the degrees of a sequence only those that are cheaper than all quicker ones are kept, groups that
// hold no more are not asked again, nor are degrees that have no room.
class RoundMaker {
public:
    RoundMaker(const Problem& problem, const MicroCosts& costs);

    // Micro-batches of one round, each at most `limit` seconds, on ranks that are free. Takes what
    // it can of `left` (longest first).
    std::vector<Gang> make(std::vector<std::int32_t>& left, double limit);

    // Groups and degrees that were weighed since the start.
    std::int64_t num_looks() const { return num_looks_; }

private:
    struct Choice {
        double charge = 0;  // rank-seconds
        double seconds = 0;
        std::size_t degree_index = 0;
    };

    std::vector<Choice> choices_of(const Load& load) const;
    const Choice* cheapest(std::int32_t sequence, double limit) const;
    bool open_or_join(std::int32_t sequence, double limit);
    bool open(std::size_t degree_index);

    const Problem& problem_;
    const MicroCosts& costs_;
    std::vector<Load> loads_;                   // of every sequence
    std::vector<std::vector<Choice>> choices_;  // cheap ones first, and ever quicker
    Placer placer_;
    std::vector<Gang> gangs_;
    std::vector<std::size_t> open_gangs_;  // some sequence may still join them
    std::vector<bool> has_no_room_;        // of every degree
    int free_ranks_ = 0;
    Load least_;  // no sequence that is left has less of either
    std::int64_t num_looks_ = 0;
};

}  // namespace dcp::plan
