// The paper's two planners, for a fixed global batch.
//
// As its text and released code describe them: every length class has one best (SP degree, batch
// size), found by throughput per rank; degrees are powers of two; groups are made for the iteration
// and fill the world, wide ones first; each group accumulates micro-batches of its own degree, as
// many as make all groups finish together. Where the released code draws at random until the ranks
// are used up and lets the number of samples float, here the batch is given, so the number of
// groups of a degree follows its share of the work. `dcp-inter` recomputes every layer, `dcp-intra`
// as few as memory allows, and chooses degree and batch size anew with that.
//
// Every range of degrees is tried. On thousands of ranks a plan has thousands of groups, so ways
// that come to the same are tried once, and a plan is made only where it may be the shortest.
#include "core/plan/paper.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "core/plan/length_classes.hpp"
#include "core/plan/paper_parts.hpp"
#include "core/plan/planners.hpp"

namespace dcp::plan {

namespace {

using Shape = LengthClasses::Shape;

struct Trial {
    std::vector<PaperPart> parts;  // wide ones first
    std::size_t order = 0;         // of equally long plans the first wins
    double least_seconds = 0;
};

class PaperSearch {
public:
    PaperSearch(const Problem& problem, bool keeps_activations, const std::vector<int>& degrees)
        : problem_(problem), classes_(problem, keeps_activations, degrees) {}

    // Nothing where these degrees do not hold some class, or where it comes to what was tried.
    void add(std::size_t first, std::size_t last, double pace) {
        const auto shapes = classes_.shapes(first, last, pace);
        if (!shapes || !is_new(*shapes)) {
            return;
        }
        Trial trial{.parts = paper_parts(problem_, classes_, *shapes), .order = trials_.size()};
        trial.least_seconds = least_seconds(problem_, classes_, trial.parts);
        trials_.push_back(std::move(trial));
    }

    std::size_t num_trials() const { return trials_.size(); }

    // Of at least one trial; how many plans it took.
    std::pair<Plan, std::size_t> shortest() {
        std::sort(trials_.begin(), trials_.end(), [](const Trial& a, const Trial& b) {
            return a.least_seconds != b.least_seconds ? a.least_seconds < b.least_seconds
                                                      : a.order < b.order;
        });
        Plan best;
        std::size_t best_order = 0;
        std::size_t num_plans = 0;
        const auto is_beaten = [&](double seconds, std::size_t order) {
            return seconds > best.makespan_seconds ||
                   (seconds == best.makespan_seconds && order > best_order);
        };
        for (const Trial& trial : trials_) {
            const double least = trial.least_seconds + problem_.cost->per_iteration_seconds();
            if (num_plans > 0 && is_beaten(least, trial.order)) {
                continue;
            }
            Plan candidate = paper_plan_of(problem_, classes_, trial.parts);
            if (num_plans == 0 || !is_beaten(candidate.makespan_seconds, trial.order)) {
                best = std::move(candidate);
                best_order = trial.order;
            }
            ++num_plans;
        }
        return {std::move(best), num_plans};
    }

private:
    bool is_new(const std::vector<Shape>& shapes) {
        std::vector<std::pair<std::size_t, std::size_t>> all;
        for (const Shape& shape : shapes) {
            all.emplace_back(shape.degree_index, shape.batch_size);
        }
        return tried_.insert(std::move(all)).second;
    }

    const Problem& problem_;
    LengthClasses classes_;
    std::set<std::vector<std::pair<std::size_t, std::size_t>>> tried_;
    std::vector<Trial> trials_;
};

std::vector<int> paper_degrees(const Problem& problem) {
    std::vector<int> degrees;
    std::copy_if(problem.degrees.begin(), problem.degrees.end(), std::back_inserter(degrees),
                 [](int degree) { return std::has_single_bit(static_cast<unsigned>(degree)); });
    return degrees;
}

}  // namespace

PaperPlan paper_plan(const Problem& problem, bool keeps_activations) {
    check_problem(problem);
    require_all_fit(problem);
    // dcp-intra prefers micro-batches that last as long as the shortest time in which all of them
    // can be done; where that lies is tried out.
    std::vector<double> paces{0};
    for (double pace = 0.25; keeps_activations && pace < 10; pace *= 1.4) {
        paces.push_back(pace);
    }
    const std::vector<int> degrees = paper_degrees(problem);
    PaperSearch search(problem, keeps_activations, degrees);
    for (std::size_t first = 0; first < degrees.size(); ++first) {
        for (std::size_t last = first; last < degrees.size(); ++last) {
            for (const double pace : paces) {
                search.add(first, last, pace);
            }
        }
    }
    if (search.num_trials() == 0) {
        // Only a degree that the paper does not have holds some class: one degree for all.
        return {.plan = PackedPlanner().plan(problem)};
    }
    auto [plan, num_plans] = search.shortest();
    return {.plan = std::move(plan), .num_trials = search.num_trials(), .num_predicted = num_plans};
}

Plan InterPlanner::plan(const Problem& problem) const {
    return paper_plan(problem, /*keeps_activations=*/false).plan;
}

Plan IntraPlanner::plan(const Problem& problem) const {
    return paper_plan(problem, /*keeps_activations=*/true).plan;
}

}  // namespace dcp::plan
