#include "core/plan/fixed_degree.hpp"

#include <numeric>

namespace dcp::plan {

namespace {

std::vector<int> neighbours(int first, int count) {
    std::vector<int> ranks(static_cast<std::size_t>(count));
    std::iota(ranks.begin(), ranks.end(), first);
    return ranks;
}

bool divides_the_world(const Topology& topology, int degree) {
    return static_cast<int>(equal_groups(topology, degree).size()) * degree == topology.ranks;
}

}  // namespace

int fixed_degree(const Problem& problem, int recompute_layers) {
    const Load longest = load_of(problem.longest());
    int wasteful = 0;
    for (const int degree : problem.degrees) {
        if (!fits(problem, longest, degree, recompute_layers)) {
            continue;
        }
        if (divides_the_world(problem.topology, degree)) {
            return degree;
        }
        wasteful = wasteful == 0 ? degree : wasteful;
    }
    return wasteful;
}

std::vector<std::vector<int>> equal_groups(const Topology& topology, int degree) {
    std::vector<std::vector<int>> groups;
    if (degree > topology.ranks_per_node) {
        const int stride = topology.nodes_for(degree) * topology.ranks_per_node;
        for (int first = 0; first + degree <= topology.ranks; first += stride) {
            groups.push_back(neighbours(first, degree));
        }
        return groups;
    }
    for (int node = 0; node < topology.num_nodes(); ++node) {
        const int first = node * topology.ranks_per_node;
        for (int used = 0; used + degree <= topology.ranks_on(node); used += degree) {
            groups.push_back(neighbours(first + used, degree));
        }
    }
    return groups;
}

}  // namespace dcp::plan
