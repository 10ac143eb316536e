#include "core/profile/placement.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "core/base/errors.hpp"

namespace dcp::profile {

Placement place_groups(int num_ranks, int ranks_per_node, int degree) {
    if (degree < 1 || degree > num_ranks) {
        throw ShapeError(fmt::format("SP degree {} on {} ranks", degree, num_ranks));
    }
    // A group inside a node, or one on whole nodes and a part of the last.
    const int nodes = (degree + ranks_per_node - 1) / ranks_per_node;
    const int span = nodes * ranks_per_node;
    Placement placement;
    for (int begin = 0; begin < num_ranks; begin += span) {
        const int end = std::min(begin + span, num_ranks);
        int first = begin;
        for (; first + degree <= end; first += degree) {
            placement.groups.emplace_back(static_cast<std::size_t>(degree));
            std::iota(placement.groups.back().begin(), placement.groups.back().end(), first);
        }
        for (; first < end; ++first) {
            placement.left_over.push_back(first);
        }
    }
    return placement;
}

}  // namespace dcp::profile
