// Plans where memory is shorter than was promised: what is known of it, and the plan of an
// iteration that has to run again.
#include <cstdio>

#include <fmt/format.h>

#include "comm/communicator.hpp"
#include "comm/launch.hpp"
#include "core/base/errors.hpp"
#include "core/base/units.hpp"
#include "core/train/plan_source.hpp"

namespace dcp::train {

namespace {

constexpr int kMostReplays = 5;  // of an iteration

}  // namespace

double PlanSource::more_bytes(int degree, std::int64_t tokens) const {
    return learner_.correction().more_bytes(degree, tokens);
}

// On a rank alone: less than the limit only after bytes were raised.
std::int64_t PlanSource::tokens_held_here() const {
    const auto fits = [&](std::int64_t tokens) {
        return static_cast<double>(limits_.memory->peak_bytes(tokens, {}, limits_.deepest)) +
                   more_bytes(1, tokens) <=
               static_cast<double>(limits_.budget_bytes);
    };
    if (more_bytes(1, limits_.rank_tokens) == 0 || fits(limits_.rank_tokens)) {
        return limits_.rank_tokens;
    }
    std::int64_t held = 0;
    std::int64_t too_many = limits_.rank_tokens;
    while (too_many - held > 1) {
        const std::int64_t middle = held + (too_many - held) / 2;
        (fits(middle) ? held : too_many) = middle;
    }
    return held;
}

// "rank 1 has 3.2 MiB too little for a micro-batch of 1024 tokens on ranks 0-1"
std::string PlanSource::describe(const MemoryShortage& shortage) const {
    const plan::Step& step = last_.steps[static_cast<std::size_t>(shortage.step)];
    return fmt::format("rank {} has {} too little for a micro-batch of {} tokens on rank{} {}",
                       shortage.rank, format_bytes(shortage.missing_bytes),
                       last_batch_.tokens_of(step), step.degree() == 1 ? "" : "s",
                       comm::describe_ranks(step.world_ranks));
}

// A plan promised that so much would be left of the budget; so much was missing instead. What was
// refused in the middle of a step may not have been the last that it wanted. What happens again in
// one iteration is not a matter of the class alone: then smaller shares and other degrees are
// raised as well.
void PlanSource::raise_bytes(const std::vector<MemoryShortage>& shortages, bool is_again) {
    constexpr double kMore = 1.25;
    struct Raise {
        int degree;
        std::int64_t tokens;
        double bytes;
    };
    std::vector<Raise> raises;
    for (const MemoryShortage& shortage : shortages) {
        const plan::Step& step = last_.steps[static_cast<std::size_t>(shortage.step)];
        const std::int64_t tokens = last_batch_.tokens_of(step);
        const double bytes = more_bytes(step.degree(), tokens) +
                             static_cast<double>(limits_.budget_bytes) - step.peak_bytes +
                             kMore * static_cast<double>(shortage.missing_bytes);
        raises.push_back({step.degree(), tokens, bytes});
        for (const int degree : is_again ? cost_.degrees : std::vector<int>()) {
            const std::int64_t half_share = std::max<std::int64_t>(tokens / step.degree() / 2, 1);
            raises.push_back({degree, degree * half_share, bytes});
        }
    }
    for (const Raise& raise : raises) {
        learner_.correction().raise_bytes(raise.degree, raise.tokens, raise.bytes);
    }
}

plan::Plan PlanSource::replan(Queue& queue,
                              std::int64_t iteration,
                              const GlobalBatch& now,
                              const GlobalBatch& next,
                              const std::vector<MemoryShortage>& shortages,
                              int replays) {
    const std::string what = fmt::format("iteration {}: out of memory budget: {}", iteration,
                                         describe(shortages.front()));
    if (replays == kMostReplays) {
        throw comm::SharedConfigError(
            fmt::format(
                "{}, though it was planned anew {} times. Lower batch.micro_batch_tokens or "
                "data.max_tokens, or raise memory.budget",
                what, replays),
            kExitFailedRun);
    }
    if (world_.is_first()) {
        fmt::print(stderr, "dcp: warning: {}; it is planned anew\n", what);
        if (ahead_.valid()) {  // it reads what is raised, and was made with too few bytes
            ahead_.wait();
            ahead_ = {};
        }
    }
    raise_bytes(shortages, replays > 0);
    try {
        return share(queue, iteration, now, next);
    } catch (const CommError&) {
        throw;
    } catch (const Error&) {  // on all ranks: no plan is left. What was short may not stay so
        learner_.correction().forget_bytes();
        return share(queue, iteration, now, next);
    }
}

}  // namespace dcp::train
