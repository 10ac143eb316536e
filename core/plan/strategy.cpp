#include "core/plan/strategy.hpp"

#include <numeric>

namespace dcp::plan {

bool is_possible(const Strategy& strategy, const Heads& heads) {
    return strategy.ulysses >= 1 && strategy.ring >= 1 && heads.query % strategy.ulysses == 0;
}

std::vector<Strategy> possible_strategies(int degree, const Heads& heads) {
    std::vector<Strategy> possible;
    for (int ring = 1; ring <= degree; ++ring) {
        const Strategy strategy{.ulysses = degree / ring, .ring = ring};
        if (degree % ring == 0 && is_possible(strategy, heads)) {
            possible.push_back(strategy);
        }
    }
    return possible;
}

Strategy preferred_strategy(int degree, const Heads& heads) {
    const int ulysses = std::gcd(degree, heads.query);  // gcd(degree, 0) = degree
    return {.ulysses = ulysses, .ring = degree / ulysses};
}

}  // namespace dcp::plan
