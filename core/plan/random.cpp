// Any valid plan. A draw chooses the style of the whole plan (how many sequences share a step, how
// wide groups are, which ranks take part, how often neighbours form a group), then every step.
#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/rng.hpp"
#include "core/plan/planners.hpp"

namespace dcp::plan {

namespace {

// Numbers in the order they are asked for; nothing else depends on that order.
class Draws {
public:
    Draws(std::uint64_t seed, std::uint64_t batch) : rng_(seed, "random plan", batch) {}

    // In [0, count). The bias of a remainder of 64 random bits is no concern of a test.
    std::size_t below(std::size_t count) {
        return static_cast<std::size_t>(rng_.word(next_++) % count);
    }
    int between(int low, int high) {
        const int count = high - low + 1;
        return low + static_cast<int>(below(static_cast<std::size_t>(count)));
    }
    bool chance(double probability) { return rng_.uniform(next_++) < probability; }
    double uniform() { return rng_.uniform(next_++); }

    template <class Container>
    void shuffle(Container& items) {
        for (std::size_t i = items.size(); i > 1; --i) {
            std::swap(items[i - 1], items[below(i)]);
        }
    }
    template <class Container>
    const auto& one_of(const Container& items) {
        return items[below(items.size())];
    }

private:
    CounterRng rng_;
    std::uint64_t next_ = 0;
};

struct Style {
    int most_sequences = 1;    // in a step
    double wide = 0;           // probability that a step may use any allowed degree
    double neighbours = 0;     // probability that a group is a run of ranks
    double recompute = 0;      // probability that a step recomputes at all
    std::vector<bool> active;  // ranks that small groups are drawn from
};

Style draw_style(Draws& draws, const Problem& problem) {
    Style style;
    const auto count = static_cast<int>(problem.sequences.size());
    style.most_sequences = draws.chance(0.3) ? 1 : draws.between(1, std::max(1, count));
    style.wide = draws.chance(0.3) ? 1.0 : draws.uniform();
    style.neighbours = draws.chance(0.3) ? 0.0 : draws.uniform();
    style.recompute = draws.chance(0.3) ? 0.0 : draws.uniform();
    style.active.assign(static_cast<std::size_t>(problem.topology.ranks), true);
    if (draws.chance(0.4)) {  // some ranks have nothing to do, unless a wide group needs them
        for (std::size_t rank = 0; rank < style.active.size(); ++rank) {
            style.active[rank] = draws.chance(0.6);
        }
    }
    return style;
}

// The wanted ones to the front, in their order.
template <class Wanted>
void put_first(std::vector<int>& items, Wanted is_wanted) {
    std::vector<int> rest;
    std::size_t wanted = 0;
    for (const int item : items) {
        if (is_wanted(item)) {
            items[wanted++] = item;
        } else {
            rest.push_back(item);
        }
    }
    std::copy(rest.begin(), rest.end(), items.begin() + static_cast<std::ptrdiff_t>(wanted));
}

// Nodes for a group of this degree, in a random order: as few as can hold it, and those with active
// ranks first.
std::vector<int> draw_nodes(Draws& draws,
                            const Topology& topology,
                            int degree,
                            const Style& style) {
    std::vector<int> nodes(static_cast<std::size_t>(topology.num_nodes()));
    std::iota(nodes.begin(), nodes.end(), 0);
    draws.shuffle(nodes);
    put_first(nodes, [&](int node) {
        const int first_rank = node * topology.ranks_per_node;
        const auto first = style.active.begin() + first_rank;
        const auto last = first + topology.ranks_on(node);
        return std::find(first, last, true) != last;
    });
    const auto needed = static_cast<std::size_t>(topology.nodes_for(degree));
    const auto room = [&] {
        int ranks = 0;
        for (std::size_t i = 0; i < needed; ++i) {
            ranks += topology.ranks_on(nodes[i]);
        }
        return ranks;
    };
    // Only a short last node can be in the way: put another in its place.
    for (std::size_t i = 0; room() < degree && i < needed; ++i) {
        if (nodes[i] == topology.num_nodes() - 1) {
            std::swap(nodes[i], nodes.back());
        }
    }
    nodes.resize(needed);
    return nodes;
}

std::vector<int> ranks_of(const Topology& topology, int node) {
    std::vector<int> ranks(static_cast<std::size_t>(topology.ranks_on(node)));
    std::iota(ranks.begin(), ranks.end(), node * topology.ranks_per_node);
    return ranks;
}

// `count` of the ranks of one node: a run of neighbours, or any, active ones first.
std::vector<int> draw_in_node(
    Draws& draws, const Topology& topology, int node, int count, const Style& style) {
    std::vector<int> ranks = ranks_of(topology, node);
    const auto spare = ranks.size() - static_cast<std::size_t>(count);
    if (draws.chance(style.neighbours)) {
        const auto first = static_cast<std::ptrdiff_t>(draws.below(spare + 1));
        return {ranks.begin() + first, ranks.begin() + first + count};
    }
    draws.shuffle(ranks);
    put_first(ranks, [&](int rank) { return style.active[static_cast<std::size_t>(rank)]; });
    ranks.resize(static_cast<std::size_t>(count));
    return ranks;
}

std::vector<int> draw_group(Draws& draws,
                            const Topology& topology,
                            int degree,
                            const Style& style) {
    const std::vector<int> nodes = draw_nodes(draws, topology, degree, style);
    // One rank of every node first, then the rest wherever there is room.
    std::vector<int> counts(nodes.size(), 1);
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        places.insert(places.end(), static_cast<std::size_t>(topology.ranks_on(nodes[i]) - 1), i);
    }
    draws.shuffle(places);
    for (std::size_t i = 0; i + nodes.size() < static_cast<std::size_t>(degree); ++i) {
        ++counts[places[i]];
    }
    std::vector<int> group;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        const std::vector<int> ranks = draw_in_node(draws, topology, nodes[i], counts[i], style);
        group.insert(group.end(), ranks.begin(), ranks.end());
    }
    std::sort(group.begin(), group.end());
    return group;
}

struct Shape {
    int degree = 0;  // 0: nothing holds the load
    int depth = 0;
};

// A degree and depth that hold the load: drawn, else the first that the rest of the list offers.
Shape draw_shape(Draws& draws, const Problem& problem, const Load& load, const Style& style) {
    std::vector<int> degrees = problem.degrees;
    if (draws.chance(style.wide)) {
        draws.shuffle(degrees);
    }
    for (const int degree : degrees) {
        const int most = problem.max_recompute_layers();
        const int drawn = draws.chance(style.recompute) ? draws.between(0, most) : 0;
        for (const int depth :
             {drawn, draws.between(0, most), leanest_depth(problem, load, degree)}) {
            if (fits(problem, load, degree, depth)) {
                return {.degree = degree, .depth = depth};
            }
        }
    }
    return {};
}

// Steps for these sequences: one if a group can hold them, else two halves.
void add_steps(Draws& draws,
               const Problem& problem,
               const Style& style,
               std::vector<std::int32_t> sequences,
               std::vector<Step>& steps) {
    const Shape shape = draw_shape(draws, problem, load_of(problem, sequences), style);
    if (shape.degree == 0) {
        const auto middle = sequences.begin() + static_cast<std::ptrdiff_t>(sequences.size() / 2);
        add_steps(draws, problem, style, {sequences.begin(), middle}, steps);
        add_steps(draws, problem, style, {middle, sequences.end()}, steps);
        return;
    }
    steps.push_back({.world_ranks = draw_group(draws, problem.topology, shape.degree, style),
                     .sequences = std::move(sequences),
                     .strategy = draws.one_of(possible_strategies(shape.degree, problem.heads)),
                     .recompute_layers = shape.depth});
}

// Another batch gets another plan under one seed.
std::uint64_t batch_number(const Problem& problem) {
    std::uint64_t number = hash_name("batch");
    for (const Sequence& sequence : problem.sequences) {
        number = (number ^ static_cast<std::uint64_t>(sequence.id)) * 0x100000001b3U;
        number = (number ^ static_cast<std::uint64_t>(sequence.tokens)) * 0x100000001b3U;
    }
    return number;
}

}  // namespace

Plan RandomPlanner::plan(const Problem& problem) const {
    check_problem(problem);
    require_all_fit(problem);
    Draws draws(seed_, batch_number(problem));
    const Style style = draw_style(draws, problem);
    std::vector<std::int32_t> order(problem.sequences.size());
    std::iota(order.begin(), order.end(), 0);
    draws.shuffle(order);
    std::vector<Step> steps;
    for (auto next = order.begin(); next != order.end();) {
        const auto left = static_cast<int>(std::distance(next, order.end()));
        const int count = draws.between(1, std::min(left, style.most_sequences));
        add_steps(draws, problem, style, {next, next + count}, steps);
        next += count;
    }
    draws.shuffle(steps);
    return predicted(problem, std::move(steps));
}

}  // namespace dcp::plan
