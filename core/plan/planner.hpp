// Lengths in, plan out. Pure: no clock, no files, no randomness but the seed; the same problem
// gives the same plan again. On another machine too as far as logarithms and exponentials agree
// there in the last bit (bandwidths between listed degrees and the bound need them); one rank plans
// for all.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/plan/problem.hpp"

namespace dcp::plan {

class Planner {
public:
    virtual ~Planner() = default;

    virtual std::string_view name() const = 0;

    // A plan that validate() accepts. PlanError names the first sequence that fits nowhere, its
    // need, the budget, and what would make it fit.
    virtual Plan plan(const Problem& problem) const = 0;
};

// How long a planner that searches may think, in tries and moves: what it finds does not depend on
// how fast the machine is. kFast is for a plan that somebody waits for, kBackground for one that is
// made while the iteration before runs.
enum class Effort : std::uint8_t { kFast, kBackground };

struct PlannerOptions {
    std::uint64_t seed = 0;  // of planners that draw
    Effort effort = Effort::kBackground;
};

// ConfigError for an unknown name lists the known ones.
std::unique_ptr<Planner> make_planner(std::string_view name, const PlannerOptions& options = {});

std::vector<std::string> planner_names();

// That error, for whoever knows other planners besides.
[[noreturn]] void refuse_planner(std::string_view name, const std::vector<std::string>& known);

}  // namespace dcp::plan
