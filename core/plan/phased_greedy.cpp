// Phases by a cap of work, greedily: phases.hpp.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "core/plan/phases.hpp"

namespace dcp::plan {

namespace {

constexpr double kCapSlack = 1.05;

struct Group {
    int degree = 1;
    std::int64_t tokens = 0;
    double work = 0;  // sum of s^2 / degree
    std::vector<std::int32_t> sequences;
};

// How a tie in the most loaded group is broken; the description does not say.
enum class Ties : std::uint8_t { kFewestRanks, kLeastLoaded };

class MicroBatch {
public:
    MicroBatch(const RunCosts& costs, const std::vector<int>& domain, Ties ties)
        : costs_(costs), domain_(domain), ties_(ties), free_(costs.problem().topology.ranks) {}

    // Whether the sequence found a place.
    bool add(std::int32_t sequence) {
        const auto tokens = static_cast<double>(costs_.tokens(sequence));
        Choice best;
        for (const int degree : domain_) {
            if (costs_.most_tokens(degree) < costs_.tokens(sequence)) {
                continue;
            }
            const double work = costs_.load(sequence).squared_tokens / degree;
            if (groups_.empty()) {
                // Its work, were its ranks full to what memory holds.
                const auto rank_tokens = static_cast<double>(costs_.most_tokens(degree)) / degree;
                cap_ = kCapSlack * costs_.load(sequence).squared_tokens / tokens * rank_tokens;
            }
            for (std::size_t i = 0; i < groups_.size(); ++i) {
                if (groups_[i].degree == degree &&
                    groups_[i].tokens + costs_.tokens(sequence) <= costs_.most_tokens(degree)) {
                    consider({.group = i, .degree = degree, .work = groups_[i].work + work}, best);
                }
            }
            if (degree <= free_) {
                consider({.group = groups_.size(), .degree = degree, .work = work}, best);
            }
            if (groups_.empty()) {
                break;
            }
        }
        if (best.degree == 0) {
            return false;
        }
        if (best.group == groups_.size()) {
            groups_.push_back({.degree = best.degree, .tokens = 0, .work = 0, .sequences = {}});
            free_ -= best.degree;
        }
        Group& group = groups_[best.group];
        group.tokens += costs_.tokens(sequence);
        group.work = best.work;
        group.sequences.push_back(sequence);
        most_work_ = std::max(most_work_, best.work);
        return true;
    }

    // Ranks left over double the smallest groups, while that is allowed.
    std::vector<Group> filled() && {
        while (true) {
            Group* smallest = nullptr;
            for (Group& group : groups_) {
                const bool may_double =
                    group.degree <= free_ && 2 * group.degree <= costs_.problem().topology.ranks &&
                    costs_.most_tokens(2 * group.degree) >= group.tokens &&
                    std::find(domain_.begin(), domain_.end(), 2 * group.degree) != domain_.end();
                if (may_double && (smallest == nullptr || group.degree < smallest->degree)) {
                    smallest = &group;
                }
            }
            if (smallest == nullptr) {
                break;
            }
            free_ -= smallest->degree;
            smallest->degree *= 2;
        }
        return std::move(groups_);
    }

private:
    struct Choice {
        std::size_t group = 0;
        int degree = 0;  // 0: none
        double work = 0;
    };

    void consider(const Choice& choice, Choice& best) const {
        if (choice.work > cap_) {
            return;
        }
        const double most = std::max(most_work_, choice.work);
        const double best_most = std::max(most_work_, best.work);
        if (best.degree == 0 || most < best_most) {
            best = choice;
            return;
        }
        if (most > best_most) {
            return;
        }
        const bool joins = choice.group < groups_.size();
        const bool best_joins = best.group < groups_.size();
        const bool is_less_loaded = choice.work < best.work;
        // Degrees are tried from the least up: of two groups to open the first stays.
        const bool takes_fewer_ranks = joins && (!best_joins || is_less_loaded);
        if (ties_ == Ties::kFewestRanks ? takes_fewer_ranks : is_less_loaded) {
            best = choice;
        }
    }

    const RunCosts& costs_;
    const std::vector<int>& domain_;
    Ties ties_;
    int free_;
    double cap_ = std::numeric_limits<double>::infinity();
    double most_work_ = 0;
    std::vector<Group> groups_;
};

PhasedPlan greedy(const RunCosts& costs, const std::vector<int>& domain, Ties ties) {
    Phases phases(costs);
    std::vector<std::int32_t> waiting = costs.longest_first();
    bool is_first = true;
    while (!waiting.empty()) {
        MicroBatch micro_batch(costs, domain, ties);
        std::vector<std::int32_t> later;
        for (const std::int32_t sequence : waiting) {
            if (!micro_batch.add(sequence)) {
                later.push_back(sequence);
            }
        }
        if (!is_first) {
            phases.begin();
        }
        is_first = false;
        std::vector<Group> groups = std::move(micro_batch).filled();
        std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
            return a.degree != b.degree ? a.degree > b.degree
                                        : a.sequences.front() < b.sequences.front();
        });
        for (const Group& group : groups) {
            if (!phases.place(group.degree, group.sequences)) {
                phases.begin();  // nodes of an odd size: no place is left beside the others
                phases.place(group.degree, group.sequences);
            }
        }
        waiting = std::move(later);
    }
    return std::move(phases).finish();
}

// All ranks, or the widest group there is, filled with as many sequences as it holds.
PhasedPlan one_group(const RunCosts& costs) {
    const int degree = costs.degrees().back();
    Phases phases(costs);
    std::vector<std::int32_t> sequences;
    std::int64_t tokens = 0;
    const auto flush = [&] {
        if (!sequences.empty()) {
            phases.place(degree, sequences);
            phases.begin();
        }
        sequences.clear();
        tokens = 0;
    };
    for (const std::int32_t sequence : costs.longest_first()) {
        if (tokens + costs.tokens(sequence) > costs.most_tokens(degree)) {
            flush();
        }
        sequences.push_back(sequence);
        tokens += costs.tokens(sequence);
    }
    flush();
    return std::move(phases).finish();
}

}  // namespace

PhasedPlan plan_by_capped_work(const Problem& problem) {
    const RunCosts costs(problem);
    const std::vector<int> domain = power_of_two_domain(costs, 1);
    PhasedPlan best = greedy(costs, domain, Ties::kFewestRanks);
    const auto offer = [&best](PhasedPlan other) {
        if (other.plan.makespan_seconds < best.plan.makespan_seconds) {
            best = std::move(other);
        }
    };
    offer(greedy(costs, domain, Ties::kLeastLoaded));
    const int ranks = problem.topology.ranks;
    if ((ranks & (ranks - 1)) != 0 &&
        costs.most_tokens(costs.degrees().back()) >= problem.longest()) {
        offer(one_group(costs));
    }
    return best;
}

}  // namespace dcp::plan
