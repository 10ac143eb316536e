#include "core/sim/replay.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "core/base/rng.hpp"
#include "core/lengths/distribution.hpp"
#include "core/lengths/portable_math.hpp"

namespace dcp::sim {

namespace {

double slowest_factor(const Noise& noise,
                      std::int64_t iteration,
                      std::size_t step,
                      const std::vector<int>& world_ranks) {
    if (noise.spread == 0) {
        return 1;
    }
    double slowest = 0;
    for (const int rank : world_ranks) {
        const std::uint64_t thing = (static_cast<std::uint64_t>(step) << 32) |
                                    static_cast<std::uint64_t>(static_cast<unsigned>(rank));
        lengths::Words words(noise.seed + static_cast<std::uint64_t>(iteration), "step noise",
                             thing);
        slowest = std::max(slowest, lengths::portable_exp(noise.spread * words.normal() -
                                                          noise.spread * noise.spread / 2));
    }
    return slowest;
}

// When steps start, by the real ends of those before; steps come in their global order.
class Clock {
public:
    explicit Clock(const plan::Problem& problem)
        : in_rounds_(problem.step_mode != plan::StepMode::kIndependent),
          free_at_(static_cast<std::size_t>(problem.topology.ranks), 0.0),
          done_(free_at_.size(), 0) {}

    // Returns the end.
    double run(const plan::Step& step, double seconds) {
        const std::size_t round = done_[static_cast<std::size_t>(step.world_ranks.front())];
        const double end = start(step, round) + seconds;
        round_ends_.resize(std::max(round_ends_.size(), round + 1), 0.0);
        round_ends_[round] = std::max(round_ends_[round], end);
        for (const int rank : step.world_ranks) {
            free_at_[static_cast<std::size_t>(rank)] = end;
            ++done_[static_cast<std::size_t>(rank)];
        }
        return end;
    }

private:
    double start(const plan::Step& step, std::size_t round) const {
        if (in_rounds_) {  // all ranks have finished the round before
            return round == 0 ? 0 : round_ends_[round - 1];
        }
        double start = 0;
        for (const int rank : step.world_ranks) {
            start = std::max(start, free_at_[static_cast<std::size_t>(rank)]);
        }
        return start;
    }

    bool in_rounds_;
    std::vector<double> free_at_;
    std::vector<std::size_t> done_;   // steps of every rank
    std::vector<double> round_ends_;  // of the n-th step of any rank
};

}  // namespace

Timeline replay(const plan::Problem& problem,
                const plan::Plan& plan,
                const std::vector<double>& speeds,
                const Noise& noise,
                std::int64_t iteration) {
    const auto num_ranks = static_cast<std::size_t>(problem.topology.ranks);
    plan::Problem real;  // all that the cost of a step needs, with the ranks as they are
    const bool is_as_planned = speeds == problem.topology.speeds;
    if (!is_as_planned) {
        real = problem;
        real.topology.speeds = speeds;
    }
    Timeline timeline{.steps_seconds = 0, .busy_seconds = std::vector<double>(num_ranks, 0.0)};
    Clock clock(problem);
    for (std::size_t i = 0; i < plan.steps.size(); ++i) {
        const plan::Step& step = plan.steps[i];
        const double predicted = is_as_planned ? step.seconds : plan::cost_of(real, step).seconds();
        const double seconds = predicted * slowest_factor(noise, iteration, i, step.world_ranks);
        timeline.steps_seconds = std::max(timeline.steps_seconds, clock.run(step, seconds));
        for (const int rank : step.world_ranks) {
            timeline.busy_seconds[static_cast<std::size_t>(rank)] += step.is_filler() ? 0 : seconds;
        }
    }
    return timeline;
}

std::vector<double> straggler_speeds(
    int ranks, double share, double slowdown, std::uint64_t seed, std::uint64_t draw) {
    const auto count = std::llround(share * ranks);
    if (count == 0 || slowdown == 1) {
        return {};
    }
    std::vector<double> speeds(static_cast<std::size_t>(ranks), 1.0);
    const Permutation order(ranks, seed, draw);
    for (std::int64_t i = 0; i < count; ++i) {
        speeds[static_cast<std::size_t>(order(i))] = 1 / slowdown;
    }
    return speeds;
}

}  // namespace dcp::sim
