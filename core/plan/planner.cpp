#include "core/plan/planner.hpp"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/errors.hpp"
#include "core/plan/bound.hpp"
#include "core/plan/planners.hpp"
#include "core/plan/rounds.hpp"
#include "core/plan/validate.hpp"

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
            return checked(problem, inner_->plan(problem));
        }
        Problem free = problem;
        free.step_mode = StepMode::kIndependent;
        const Plan first = inner_->plan(free);
        Plan best = in_rounds(problem, first.steps);
        if (name() == "dcp") {
            std::vector<std::vector<Step>> offers{first.steps};
            const auto offer = [&](const Planner& planner) {
                offers.push_back(planner.plan(free).steps);
                best = shorter(std::move(best), in_rounds(problem, offers.back()));
            };
            offer(BucketPlanner());
            offer(PackedPlanner());
            offer(InterPlanner());
            offer(IntraPlanner());
            best = shorter(std::move(best), plan_rounds(problem, effort_, offers));
        }
        if (first.lower_bound_seconds > 0) {
            best.lower_bound_seconds = lower_bounds(problem).best_seconds();
        }
        return checked(problem, std::move(best));
    }

private:
    static Plan shorter(Plan a, Plan b) {
        return b.makespan_seconds < a.makespan_seconds ? std::move(b) : std::move(a);
    }

    std::unique_ptr<Planner> inner_;
    Effort effort_;
};

// Every planner, in the order they are listed in.
struct Known {
    std::string_view name;
    std::unique_ptr<Planner> (*make)(const PlannerOptions& options);
};

template <class Kind, auto... options>
std::unique_ptr<Planner> make([[maybe_unused]] const PlannerOptions& given) {
    return std::make_unique<Kind>(given.*options...);
}

constexpr Known kKnown[] = {
    {"dcp", make<DcpPlanner, &PlannerOptions::effort>},
    {"dcp-inter", make<InterPlanner>},
    {"dcp-intra", make<IntraPlanner>},
    {"bucket", make<BucketPlanner>},
    {"packed", make<PackedPlanner>},
    {"random", make<RandomPlanner, &PlannerOptions::seed>},
};

}  // namespace

std::vector<std::string> planner_names() {
    std::vector<std::string> names;
    for (const Known& known : kKnown) {
        names.emplace_back(known.name);
    }
    return names;
}

void refuse_planner(std::string_view name, const std::vector<std::string>& known) {
    throw ConfigError(fmt::format("unknown planner '{}'; known: {}", name, fmt::join(known, ", ")));
}

std::unique_ptr<Planner> make_planner(std::string_view name, const PlannerOptions& options) {
    for (const Known& known : kKnown) {
        if (known.name == name) {
            return std::make_unique<AnyModePlanner>(known.make(options), options.effort);
        }
    }
    refuse_planner(name, planner_names());
}

}  // namespace dcp::plan
