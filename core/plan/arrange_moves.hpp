// The moves of arrange(): each changes gangs, places or the pool, and takes itself back where the
// judgement becomes worse than allowed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/plan/arrange_state.hpp"
#include "core/plan/fast_random.hpp"

namespace dcp::plan {

class ArrangeMoves {
public:
    // `degrees`: indices of those that gangs may have, rising; not empty.
    ArrangeMoves(ArrangeState& state,
                 std::vector<std::size_t> degrees,
                 double most_gang_seconds,
                 FastRandom& random);

    // Draws a move. True where it stands: then value() is the judgement after it, at most `most`.
    bool try_one(double most);
    double value() const { return value_; }

private:
    static constexpr std::size_t kNone = ~std::size_t{0};

    std::size_t draw_gang();
    // Of a gang's ranks: any choice; or one of the two that are best by their measure.
    int draw_choice();
    int draw_good_choice();
    bool keep(double most);
    bool try_choice(double most);
    bool try_degree(double most);
    bool fits_one_rank(std::int32_t sequence) const;
    bool try_sequences(double most);
    bool try_between(std::size_t i, std::size_t j, double most);
    bool try_opening(double most);
    bool try_closing(double most);

    ArrangeState& state_;
    const MicroCosts& costs_;
    std::vector<ArrangeState::Member>& gangs_;
    std::vector<std::int32_t>& pool_;
    Pool& pool_load_;
    std::vector<std::size_t> degrees_;
    double most_gang_seconds_;
    FastRandom& random_;
    double value_ = 0;
};

}  // namespace dcp::plan
