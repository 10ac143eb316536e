// What the paper's planners deal to groups: the micro-batches of every SP degree, and how many
// groups it has.
#pragma once

#include <cstddef>
#include <vector>

#include "core/plan/length_classes.hpp"
#include "core/plan/problem.hpp"

namespace dcp::plan {

struct PaperPart {  // all micro-batches of one degree
    std::size_t degree_index = 0;
    int degree = 1;
    std::vector<LengthClasses::Cut> cuts;
    int num_batches = 0;
    int num_groups = 1;
    double work_seconds = 0;
};

// Wide ones first. A degree that has no room beside the wider ones hands its micro-batches to the
// next wider.
std::vector<PaperPart> paper_parts(const Problem& problem,
                                   LengthClasses& classes,
                                   const std::vector<LengthClasses::Shape>& shapes);

// No plan of these parts ends sooner, what an iteration costs once left out.
double least_seconds(const Problem& problem,
                     LengthClasses& classes,
                     const std::vector<PaperPart>& parts);

// Each group accumulates micro-batches of its own degree, longest first.
Plan paper_plan_of(const Problem& problem,
                   LengthClasses& classes,
                   const std::vector<PaperPart>& parts);

}  // namespace dcp::plan
