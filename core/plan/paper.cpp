// The paper's two planners, for a fixed global batch.
//
// As its text and released code describe them: every length class has one best (SP degree, batch
// size), found by throughput per rank; degrees are powers of two; groups are made for the iteration
// and fill the world, wide ones first; each group accumulates micro-batches of its own degree, as
// many as make all groups finish together. Where the released code draws at random until the ranks
// are used up and lets the number of samples float, here the batch is given, so the number of
// groups of a degree follows its share of the work. `dcp-inter` recomputes every layer, `dcp-intra`
// as few as memory allows, and chooses degree and batch size anew with that.
#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "core/base/errors.hpp"
#include "core/plan/gang.hpp"
#include "core/plan/planners.hpp"

namespace dcp::plan {

namespace {

constexpr std::size_t kNumClasses = 64;  // up to 1, 2, 4, 8, ... tokens

std::size_t class_of(std::int64_t tokens) {
    return static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(tokens - 1)));
}

constexpr double kNever = std::numeric_limits<double>::infinity();

struct Shape {
    int degree = 0;  // 0: nothing holds the class
    std::size_t batch_size = 1;
    double seconds = kNever;
    double rank_seconds = kNever;  // a sequence
};

class PaperPlan {
public:
    PaperPlan(const Problem& problem, bool keeps_activations, std::vector<int> degrees)
        : problem_(problem), keeps_activations_(keeps_activations), degrees_(std::move(degrees)) {}

    // False where these degrees do not hold some class. `pace`: longest micro-batch that is wanted,
    // in equal shares of the batch; 0: no matter how long.
    bool make_micro_batches(double pace) {
        std::vector<std::vector<std::int32_t>> classes(kNumClasses);
        for (std::size_t i = 0; i < problem_.sequences.size(); ++i) {
            classes[class_of(problem_.sequences[i].tokens)].push_back(static_cast<std::int32_t>(i));
        }
        double rank_seconds = 0;
        for (std::size_t c = 0; c < kNumClasses; ++c) {
            if (!classes[c].empty()) {
                const Shape alone = best_shape(class_tokens(c), 1, kNever);
                longest_seconds_ = std::max(longest_seconds_, alone.seconds);
                rank_seconds += alone.rank_seconds * static_cast<double>(classes[c].size());
            }
        }
        share_seconds_ = rank_seconds / problem_.topology.ranks;
        const double limit =
            pace > 0 ? pace * share_seconds_ : std::max(longest_seconds_, share_seconds_);
        batches_.clear();
        for (std::size_t c = 0; c < kNumClasses; ++c) {
            if (classes[c].empty()) {
                continue;
            }
            const Shape shape = best_shape(class_tokens(c), classes[c].size(), limit);
            if (shape.degree == 0) {
                return false;
            }
            cut(classes[c], shape);
        }
        return true;
    }

    Plan plan() {
        const std::map<int, int> counts = group_counts();
        std::vector<double> taken(static_cast<std::size_t>(problem_.topology.ranks), 0.0);
        std::vector<Step> steps;
        for (auto count = counts.rbegin(); count != counts.rend(); ++count) {
            deal(count->first, place(count->first, count->second, taken), steps);
        }
        return predicted(problem_, std::move(steps));
    }

private:
    // The longest length that a class may have in this run.
    std::int64_t class_tokens(std::size_t c) const {
        return std::min(std::int64_t{1} << c, problem_.longest());
    }

    // The depth of a micro-batch; layers() + 1 where it does not fit.
    int depth(const Load& load, int degree) const {
        const int most = problem_.max_recompute_layers();
        for (int layers = keeps_activations_ ? 0 : most; layers <= most; ++layers) {
            if (fits(problem_, load, degree, layers)) {
                return layers;
            }
        }
        // Where checkpoints cost more than they save, keeping everything is what is left.
        return fits(problem_, load, degree, 0) ? 0 : problem_.cost->layers() + 1;
    }

    // By rank-seconds a sequence, of those within `limit` seconds; the fastest where none is.
    Shape best_shape(std::int64_t tokens, std::size_t count, double limit) const {
        Shape best;
        const Load one = load_like(problem_, tokens);
        for (const int degree : degrees_) {
            for (std::size_t size = 1; size <= std::bit_ceil(count); size *= 2) {
                const Load load{one.tokens * static_cast<std::int64_t>(size),
                                one.squared_tokens * static_cast<double>(size)};
                const int layers = depth(load, degree);
                if (layers > problem_.cost->layers()) {
                    break;
                }
                const double seconds = cost_of(problem_, load, degree, layers).seconds();
                const Shape shape{.degree = degree,
                                  .batch_size = size,
                                  .seconds = seconds,
                                  .rank_seconds = degree * seconds / static_cast<double>(size)};
                if (seconds > limit && (size > 1 || best.seconds <= limit)) {
                    continue;
                }
                const bool is_first_within = seconds <= limit && best.seconds > limit;
                const bool is_better = seconds > limit ? seconds < best.seconds
                                                       : shape.rank_seconds < best.rank_seconds;
                if (is_first_within || is_better) {
                    best = shape;
                }
            }
        }
        return best;
    }

    void cut(const std::vector<std::int32_t>& sequences, const Shape& shape) {
        for (std::size_t begin = 0; begin < sequences.size(); begin += shape.batch_size) {
            const std::size_t end = std::min(begin + shape.batch_size, sequences.size());
            batches_[shape.degree].emplace_back(
                sequences.begin() + static_cast<std::ptrdiff_t>(begin),
                sequences.begin() + static_cast<std::ptrdiff_t>(end));
        }
    }

    double seconds(const std::vector<std::int32_t>& batch, int degree) const {
        const Load load = load_of(problem_, batch);
        return cost_of(problem_, load, degree, depth(load, degree)).seconds();
    }

    // Groups of every degree: one each, then one more wherever a group has most to do, while ranks
    // last. A degree that has no room hands its micro-batches to the next wider one.
    std::map<int, int> group_counts() {
        int free = problem_.topology.ranks;
        std::map<int, int> counts;
        std::map<int, double> work;
        for (auto own = batches_.rbegin(); own != batches_.rend(); ++own) {
            if (own->first > free) {
                auto& wider = batches_[counts.begin()->first];
                std::move(own->second.begin(), own->second.end(), std::back_inserter(wider));
                own->second.clear();
                continue;
            }
            counts[own->first] = 1;
            free -= own->first;
        }
        for (const auto& [degree, count] : counts) {
            for (const auto& batch : batches_[degree]) {
                work[degree] += seconds(batch, degree);
            }
        }
        while (true) {
            int busiest = 0;
            double most = 0;
            for (const auto& [degree, count] : counts) {
                const bool is_useful =
                    degree <= free && count < static_cast<int>(batches_[degree].size());
                if (is_useful && work[degree] / count > most) {
                    most = work[degree] / count;
                    busiest = degree;
                }
            }
            if (busiest == 0) {
                return counts;
            }
            ++counts[busiest];
            free -= busiest;
        }
    }

    // As many of `count` groups as find room: the node rule can leave gaps. The first always does,
    // for groups are placed wide before narrow; where it does not, it shares ranks.
    std::vector<std::vector<int>> place(int degree, int count, std::vector<double>& taken) const {
        std::vector<std::vector<int>> groups;
        while (static_cast<int>(groups.size()) < count) {
            std::vector<int> group = place_group(problem_.topology, taken, degree, 0);
            const bool is_free = std::all_of(group.begin(), group.end(), [&](int rank) {
                return taken[static_cast<std::size_t>(rank)] == 0;
            });
            if (!is_free && !groups.empty()) {
                break;
            }
            for (const int rank : group) {
                taken[static_cast<std::size_t>(rank)] += 1;
            }
            groups.push_back(std::move(group));
        }
        return groups;
    }

    // Longest micro-batches first, each to the group of its degree that has least to do.
    void deal(int degree, const std::vector<std::vector<int>>& groups, std::vector<Step>& steps) {
        std::vector<std::pair<double, std::vector<std::int32_t>>> order;
        for (auto& batch : batches_[degree]) {
            const double time = seconds(batch, degree);
            order.emplace_back(-time, std::move(batch));
        }
        std::sort(order.begin(), order.end());
        std::vector<double> busy(groups.size(), 0.0);
        for (auto& [minus_time, batch] : order) {
            const auto least = std::min_element(busy.begin(), busy.end());
            *least -= minus_time;
            const Load load = load_of(problem_, batch);
            steps.push_back(
                {.world_ranks =
                     groups[static_cast<std::size_t>(std::distance(busy.begin(), least))],
                 .sequences = std::move(batch),
                 .strategy = preferred_strategy(degree, problem_.heads),
                 .recompute_layers = depth(load, degree)});
        }
    }

    const Problem& problem_;
    bool keeps_activations_;
    std::vector<int> degrees_;
    std::map<int, std::vector<std::vector<std::int32_t>>> batches_;  // by degree
    double longest_seconds_ = 0;  // of one sequence at its best throughput
    double share_seconds_ = 0;
};

std::vector<int> paper_degrees(const Problem& problem) {
    std::vector<int> degrees;
    std::copy_if(problem.degrees.begin(), problem.degrees.end(), std::back_inserter(degrees),
                 [](int degree) { return std::has_single_bit(static_cast<unsigned>(degree)); });
    return degrees;
}

Plan paper_plan(const Problem& problem, bool keeps_activations) {
    check_problem(problem);
    require_all_fit(problem);
    // dcp-intra prefers micro-batches that last as long as the shortest time in which all of them
    // can be done; where that lies is tried out.
    std::vector<double> paces{0};
    for (double pace = 0.25; keeps_activations && pace < 10; pace *= 1.4) {
        paces.push_back(pace);
    }
    const std::vector<int> degrees = paper_degrees(problem);
    // Where only a degree that the paper does not have holds a class: one degree for all.
    Plan best = PackedPlanner().plan(problem);
    bool is_first = true;
    for (auto first = degrees.begin(); first != degrees.end(); ++first) {
        for (auto last = first; last != degrees.end(); ++last) {
            for (const double pace : paces) {
                PaperPlan trial(problem, keeps_activations, {first, last + 1});
                if (!trial.make_micro_batches(pace)) {
                    continue;
                }
                Plan candidate = trial.plan();
                if (is_first || candidate.makespan_seconds < best.makespan_seconds) {
                    best = std::move(candidate);
                    is_first = false;
                }
            }
        }
    }
    return best;
}

}  // namespace

Plan InterPlanner::plan(const Problem& problem) const {
    return paper_plan(problem, /*keeps_activations=*/false);
}

Plan IntraPlanner::plan(const Problem& problem) const {
    return paper_plan(problem, /*keeps_activations=*/true);
}

}  // namespace dcp::plan
