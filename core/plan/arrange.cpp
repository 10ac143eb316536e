#include "core/plan/arrange.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/plan/arrange_moves.hpp"
#include "core/plan/arrange_state.hpp"
#include "core/plan/fast_random.hpp"

namespace dcp::plan {

namespace {

std::vector<std::size_t> gang_degrees(const Problem& problem,
                                      const MicroCosts& costs,
                                      bool nested_only) {
    std::vector<std::size_t> degrees;
    for (std::size_t i = 0; i < costs.num_degrees(); ++i) {
        const int degree = costs.degree(i);
        const int node = problem.topology.ranks_per_node;
        const bool is_nested = node % degree == 0 || degree % node == 0;
        if (degree > 1 && (is_nested || !nested_only)) {
            degrees.push_back(i);
        }
    }
    return degrees;
}

class Arranging {
public:
    Arranging(const Problem& problem,
              const MicroCosts& costs,
              Arrangement start,
              double bound_seconds,
              const ArrangeEffort& effort)
        : bound_(bound_seconds),
          fixed_seconds_(costs.levels(0).front().fixed_seconds),
          fits_gangs_(effort.fits_gangs),
          ranks_(problem.topology.ranks),
          ranks_per_node_(problem.topology.ranks_per_node),
          most_moves_(effort.moves),
          random_(effort.seed),
          state_(problem, costs, std::move(start), bound_seconds, effort.moves < kFewMoves),
          degrees_(gang_degrees(problem, costs, effort.nested_degrees)),
          moves_(state_, degrees_, effort.most_gang_seconds, random_) {}

    Arrangement run() {
        state_.set_target(kFirstTarget * bound_);
        begin();
        reached_ = state_.least_time();
        step_ = reached_;
        save();
        lower_target();
        if (!degrees_.empty()) {
            anneal();
        }
        return state_.arranged(std::move(saved_), std::move(saved_pool_), saved_ending_, reached_);
    }

private:
    static constexpr double kFirstTarget = 1.01;  // over the bound
    static constexpr double kAnything = std::numeric_limits<double>::infinity();
    static constexpr double kHot = 0.5;
    static constexpr std::int64_t kRounds = 12;
    static constexpr std::int64_t kFewMoves = 3000;

    // Fits all gangs, or those inside a node only: at first the fewer moves follow the more that
    // decides.
    void begin() {
        if (!fits_gangs_) {
            return;
        }
        fit(ranks_);
        const double all = state_.least_time();
        fit(ranks_per_node_);
        if (all <= state_.least_time()) {
            fit(ranks_);
        }
    }

    void fit(int widest) {
        for (ArrangeState::Member& gang : state_.gangs()) {
            const bool is_fitted = state_.costs().degree(gang.degree_index) <= widest;
            gang.choice = is_fitted ? Placer::kFitting : 0;
        }
    }

    void anneal() {
        double value = state_.judge(kAnything);
        const std::int64_t patience = std::max<std::int64_t>(1, most_moves_ / kRounds);
        std::int64_t last_change = 0;  // of the target
        for (std::int64_t move = 0; move < most_moves_ && !is_done_; ++move) {
            const double left =
                static_cast<double>(most_moves_ - move) / static_cast<double>(most_moves_);
            // In rank-seconds; a micro-batch more or less is what most moves are about.
            const double hot = kHot * fixed_seconds_ + 1e-4 * state_.target();
            const double allowance = 2 * random_.uniform() * hot * left * left;
            if (move - last_change > patience) {
                // Too much was asked for: something between that and what was reached.
                step_ /= 2;
                set_target();
                value = state_.judge(kAnything);
                last_change = move;
            }
            if (!moves_.try_one(value + allowance)) {
                continue;
            }
            value = moves_.value();
            if (value <= 0) {
                reached_ = std::min(reached_, state_.least_time());
                save();
                lower_target();
                value = state_.judge(kAnything);
                last_change = move;
            }
        }
    }

    void lower_target() {
        step_ = std::min(step_, 0.15 * (reached_ - bound_));
        set_target();
    }

    void set_target() {
        is_done_ = reached_ <= bound_ * (1 + 1e-5);
        state_.set_target(reached_ - std::max(step_, 1e-5 * reached_));
    }

    void save() {
        saved_ = state_.gangs();
        saved_pool_ = state_.pool();
        saved_ending_ = state_.ending();
    }

    double bound_;
    double fixed_seconds_;  // of a micro-batch
    bool fits_gangs_;
    int ranks_;
    int ranks_per_node_;
    std::int64_t most_moves_;
    FastRandom random_;
    ArrangeState state_;
    std::vector<std::size_t> degrees_;  // of gangs
    ArrangeMoves moves_;
    double reached_ = 0;
    double step_ = 0;  // how far below what was reached the target is
    bool is_done_ = false;
    std::vector<ArrangeState::Member> saved_;
    std::vector<std::int32_t> saved_pool_;
    Ending saved_ending_;
};

}  // namespace

Arrangement arrange(const Problem& problem,
                    const MicroCosts& costs,
                    Arrangement start,
                    double bound_seconds,
                    const ArrangeEffort& effort) {
    return Arranging(problem, costs, std::move(start), bound_seconds, effort).run();
}

}  // namespace dcp::plan
