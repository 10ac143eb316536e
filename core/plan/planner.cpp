#include "core/plan/planner.hpp"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/errors.hpp"
#include "core/plan/planners.hpp"
#include "core/plan/rounds.hpp"

namespace dcp::plan {

namespace {

// Rounds for every planner: what it plans without them, dealt to rounds; for `dcp` also rounds made
// for rounds.
class AnyModePlanner final : public Planner {
public:
    AnyModePlanner(std::unique_ptr<Planner> inner, Effort effort)
        : inner_(std::move(inner)), effort_(effort) {}

    std::string_view name() const override { return inner_->name(); }

    Plan plan(const Problem& problem) const override {
        if (problem.step_mode == StepMode::kIndependent) {
            return inner_->plan(problem);
        }
        Plan best = dealt(*inner_, problem);
        if (name() == "dcp") {
            const auto offer = [&](Plan plan) {
                plan.lower_bound_seconds = best.lower_bound_seconds;
                if (plan.makespan_seconds < best.makespan_seconds) {
                    best = std::move(plan);
                }
            };
            offer(plan_rounds(problem, effort_));
            offer(dealt(BucketPlanner(), problem));
            offer(dealt(PackedPlanner(), problem));
            offer(dealt(InterPlanner(), problem));
            offer(dealt(IntraPlanner(), problem));
        }
        return best;
    }

private:
    static Plan dealt(const Planner& planner, const Problem& problem) {
        Problem free = problem;
        free.step_mode = StepMode::kIndependent;
        Plan plan = planner.plan(free);
        const double bound = plan.lower_bound_seconds;  // rounds are never shorter
        plan = in_rounds(problem, std::move(plan.steps));
        plan.lower_bound_seconds = bound;
        return plan;
    }

    std::unique_ptr<Planner> inner_;
    Effort effort_;
};

std::unique_ptr<Planner> make_free_planner(std::string_view name, const PlannerOptions& options);

}  // namespace

std::vector<std::string> planner_names() {
    return {"dcp", "dcp-inter", "dcp-intra", "bucket", "packed", "random"};
}

std::unique_ptr<Planner> make_planner(std::string_view name, const PlannerOptions& options) {
    return std::make_unique<AnyModePlanner>(make_free_planner(name, options), options.effort);
}

namespace {

std::unique_ptr<Planner> make_free_planner(std::string_view name, const PlannerOptions& options) {
    if (name == "dcp") {
        return std::make_unique<DcpPlanner>(options.effort);
    }
    if (name == "dcp-inter") {
        return std::make_unique<InterPlanner>();
    }
    if (name == "dcp-intra") {
        return std::make_unique<IntraPlanner>();
    }
    if (name == "bucket") {
        return std::make_unique<BucketPlanner>();
    }
    if (name == "packed") {
        return std::make_unique<PackedPlanner>();
    }
    if (name == "random") {
        return std::make_unique<RandomPlanner>(options.seed);
    }
    throw ConfigError(
        fmt::format("unknown planner '{}'; known: {}", name, fmt::join(planner_names(), ", ")));
}

}  // namespace

}  // namespace dcp::plan
