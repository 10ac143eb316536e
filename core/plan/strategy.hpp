// How a group shards a micro-batch: `ulysses` ranks exchange heads by all-to-all, `ring` of such
// groups pass keys and values around. The SP degree is the product of both.
#pragma once

#include <vector>

namespace dcp::plan {

struct Strategy {
    int ulysses = 1;
    int ring = 1;

    int degree() const { return ulysses * ring; }
    bool operator==(const Strategy&) const = default;
};

// The heads of the model that is planned for. 0 heads: no model is known, every split is possible.
struct Heads {
    int query = 0;
    int key_value = 0;  // may be fewer than the Ulysses degree: they are replicated then

    bool operator==(const Heads&) const = default;
};

// The Ulysses degree divides the query heads; that is the only condition.
bool is_possible(const Strategy& strategy, const Heads& heads);

// All of them for a degree, by falling Ulysses degree. Never empty: ring alone takes any degree.
std::vector<Strategy> possible_strategies(int degree, const Heads& heads);

// The one with the largest Ulysses degree: fewest ring exchanges.
Strategy preferred_strategy(int degree, const Heads& heads);

}  // namespace dcp::plan
