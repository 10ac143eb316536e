// A micro-batch that has no ranks yet, and the choice of ranks for it.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/cost_model.hpp"
#include "core/plan/topology.hpp"

namespace dcp::plan {

struct Gang {
    std::size_t degree_index = 0;
    std::vector<std::int32_t> sequences = {};
    Load load = {};
    double seconds = 0;
    int choice = 0;  // 0: the best place for it, 1: the second best, ...
};

// Wide before narrow, long before short.
void sort_wide_first(std::vector<Gang>& gangs);

// Ranks (sorted) that obey the node rule, can start soonest and wait least for each other, when
// every rank is busy until the given time. Inside a node there are several such groups: `choice`
// takes one that is not the best, and counts from the best again when there are no more.
std::vector<int> place_group(const Topology& topology,
                             const std::vector<double>& busy,
                             int degree,
                             int choice);

}  // namespace dcp::plan
