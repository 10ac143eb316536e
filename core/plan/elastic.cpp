#include "core/plan/elastic.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "core/plan/draft.hpp"
#include "core/plan/gang.hpp"
#include "core/plan/validate.hpp"

namespace dcp::plan {

namespace {

// What is added behind a plan.
class Filling {
public:
    Filling(const Problem& problem, const Plan& plan)
        : problem_(problem), costs_(problem), ends_(ranks(), 0.0), last_(ranks(), kNone) {
        for (const Step& step : plan.steps) {
            for (const int rank : step.world_ranks) {
                double& end = ends_[static_cast<std::size_t>(rank)];
                end = std::max(end, step.start_seconds + step.seconds);
            }
        }
        // Sums that are added up in another order may differ in the last bits.
        makespan_ = *std::max_element(ends_.begin(), ends_.end()) * (1 - 1e-12);
    }

    // False where the sequence finds no room.
    bool add(std::int32_t index, const Sequence& sequence) {
        const Load load = load_of(sequence);
        return join(index, load) || open(index, load);
    }

    std::vector<Step> steps() const {
        std::vector<Step> steps;
        for (const Gang& gang : gangs_) {
            steps.push_back(
                {.world_ranks = gang.world_ranks,
                 .sequences = gang.sequences,
                 .strategy = preferred_strategy(costs_.degree(gang.degree_index), problem_.heads),
                 .recompute_layers = costs_.level(gang.degree_index, gang.load.tokens)->depth});
        }
        return steps;
    }

private:
    static constexpr std::size_t kNone = ~std::size_t{0};

    std::size_t ranks() const { return static_cast<std::size_t>(problem_.topology.ranks); }

    double start_of(const std::vector<int>& group) const {
        double start = 0;
        for (const int rank : group) {
            start = std::max(start, ends_[static_cast<std::size_t>(rank)]);
        }
        return start;
    }

    // Into a micro-batch that was added here and is the last of all its ranks.
    bool join(std::int32_t index, const Load& load) {
        for (std::size_t i = 0; i < gangs_.size(); ++i) {
            Gang& gang = gangs_[i];
            const bool is_last =
                std::all_of(gang.world_ranks.begin(), gang.world_ranks.end(),
                            [&](int rank) { return last_[static_cast<std::size_t>(rank)] == i; });
            if (!is_last) {
                continue;
            }
            const double slowdown = 1 / problem_.topology.slowest(gang.world_ranks);
            const double seconds = costs_.seconds(gang.degree_index, gang.load + load);
            const double end = start_of(gang.world_ranks) + (seconds - gang.seconds) * slowdown;
            if (!(end <= makespan_)) {
                continue;
            }
            gang.sequences.push_back(index);
            gang.load += load;
            gang.seconds = seconds;
            occupy(i, end);
            return true;
        }
        return false;
    }

    // A new one, of the degree that takes fewest rank-seconds of those that end in time.
    bool open(std::int32_t index, const Load& load) {
        Placer placer(problem_.topology, ends_);
        double least = std::numeric_limits<double>::infinity();
        Gang best;
        double best_end = 0;
        for (std::size_t i = 0; i < costs_.num_degrees(); ++i) {
            const double seconds = costs_.seconds(i, load);
            const double charge = seconds * costs_.degree(i);
            if (!(charge < least)) {
                continue;
            }
            const std::vector<int>& group = placer.choose(costs_.degree(i), 0, seconds);
            const double end = start_of(group) + seconds / problem_.topology.slowest(group);
            if (end <= makespan_) {
                least = charge;
                best_end = end;
                best = {.degree_index = i,
                        .sequences = {index},
                        .load = load,
                        .seconds = seconds,
                        .world_ranks = group};
            }
        }
        if (best.sequences.empty()) {
            return false;
        }
        gangs_.push_back(std::move(best));
        occupy(gangs_.size() - 1, best_end);
        return true;
    }

    void occupy(std::size_t gang, double end) {
        for (const int rank : gangs_[gang].world_ranks) {
            ends_[static_cast<std::size_t>(rank)] = end;
            last_[static_cast<std::size_t>(rank)] = gang;
        }
    }

    const Problem& problem_;
    MicroCosts costs_;
    std::vector<double> ends_;       // of every rank
    std::vector<std::size_t> last_;  // of every rank: the gang it ends with; kNone: none of these
    double makespan_ = 0;
    std::vector<Gang> gangs_;
};

}  // namespace

std::size_t fill_idle_time(Problem& problem, Plan& plan, std::span<const Sequence> next) {
    if (problem.topology.ranks == 0 || plan.steps.empty()) {
        return 0;
    }
    Filling filling(problem, plan);
    const std::size_t before = problem.sequences.size();
    std::size_t taken = 0;
    while (taken < next.size() &&
           filling.add(static_cast<std::int32_t>(before + taken), next[taken])) {
        ++taken;
    }
    problem.sequences.insert(problem.sequences.end(), next.begin(),
                             next.begin() + static_cast<std::ptrdiff_t>(taken));
    std::vector<Step> steps = std::move(plan.steps);
    for (Step& step : filling.steps()) {
        steps.push_back(std::move(step));
    }
    plan = checked(problem, predicted(problem, std::move(steps)));
    return taken;
}

}  // namespace dcp::plan
