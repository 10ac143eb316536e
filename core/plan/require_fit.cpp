// Whether every sequence has a place where it fits, and what to say of one that has none.
#include <algorithm>
#include <cmath>
#include <string>

#include <fmt/format.h>

#include "core/base/errors.hpp"
#include "core/base/units.hpp"
#include "core/plan/problem.hpp"

namespace dcp::plan {

namespace {

// In tenths of a unit, rounded to the side that is safe: who follows the advice has enough, and a
// need is never printed as what the budget is.
std::string bytes_text(double bytes, double (*round)(double)) {
    if (bytes >= 1e18) {
        return fmt::format("{:.3g} B", bytes);
    }
    double tenth = 1;
    while (bytes >= 1024 * tenth) {
        tenth *= 1024;
    }
    tenth = tenth > 1 ? tenth / 10 : 1;
    return format_bytes(static_cast<std::int64_t>(round(round(bytes / tenth) * tenth)));
}

std::string need_text(double bytes) {
    return bytes_text(bytes, std::ceil);
}

std::string budget_text(double bytes) {
    return bytes_text(bytes, std::floor);
}

struct Need {
    double bytes = 0;
    int degree = 1;
    int depth = 0;
};

// The allowed degree and depth that hold a load in the fewest bytes of a rank.
Need least_need(const Problem& problem, const Load& load) {
    Need least;
    bool is_first = true;
    for (const int degree : problem.degrees) {
        const int depth = leanest_depth(problem, load, degree);
        const double bytes = cost_of(problem, load, degree, depth).peak_bytes;
        if (is_first || bytes < least.bytes) {
            least = {.bytes = bytes, .degree = degree, .depth = depth};
            is_first = false;
        }
    }
    return least;
}

// Most tokens that a sequence of this shape of problem may have; 0: not one fits.
std::int64_t most_tokens(const Problem& problem, std::int64_t too_many) {
    std::int64_t fitting = 0;
    while (too_many - fitting > 1) {
        const std::int64_t middle = fitting + (too_many - fitting) / 2;
        const bool does_fit =
            least_need(problem, load_of(middle)).bytes <= problem.memory_budget_bytes;
        (does_fit ? fitting : too_many) = middle;
    }
    return fitting;
}

// How many sequences beside the one that is named fit nowhere either: those with more tokens than
// `fitting`.
std::string others_text(const Problem& problem, std::int64_t fitting) {
    const auto too_long =
        std::count_if(problem.sequences.begin(), problem.sequences.end(),
                      [fitting](const Sequence& one) { return one.tokens > fitting; });
    if (too_long < 2) {
        return "";
    }
    return too_long == 2 ? " (nor does 1 other)" : fmt::format(" (nor do {} others)", too_long - 1);
}

// `fitting`: most tokens that would fit.
std::string remedy(const Problem& problem,
                   const Sequence& sequence,
                   const Need& need,
                   std::int64_t fitting) {
    const Need most = least_need(problem, load_of(problem.longest()));
    std::string text = fmt::format("a budget of {}", need_text(std::max(need.bytes, most.bytes)));
    if (fitting > 0) {
        text += fmt::format(", or sequences of at most {} tokens", fitting);
    }
    Problem wider = problem;
    wider.may_recompute = true;
    if (!problem.may_recompute &&
        least_need(wider, load_of(sequence)).bytes <= problem.memory_budget_bytes) {
        text += ", or recomputation allowed";
    }
    wider = problem;
    wider.degrees = any_degrees(problem.topology.ranks);
    if (least_need(wider, load_of(sequence)).bytes <= problem.memory_budget_bytes) {
        text += ", or higher SP degrees allowed";
    }
    if (need.degree == problem.topology.ranks &&
        problem.cost->linear(need.degree, need.depth).static_bytes < problem.memory_budget_bytes) {
        text += ", or more ranks";
    }
    return text;
}

}  // namespace

void require_all_fit(const Problem& problem) {
    // What holds the longest holds every other.
    if (least_need(problem, load_of(problem.longest())).bytes <= problem.memory_budget_bytes) {
        return;
    }
    const auto require_fit = [&](const Sequence& sequence, const std::string& who) {
        const Need need = least_need(problem, load_of(sequence));
        if (need.bytes <= problem.memory_budget_bytes) {
            return;
        }
        const std::int64_t fitting = most_tokens(problem, sequence.tokens);
        throw PlanError(fmt::format(
            "{} of {} tokens fits nowhere{}: it needs {} a rank (SP degree {}, {} of {} layers "
            "recomputed), the budget is {}; what would make it fit: {}",
            who, sequence.tokens, others_text(problem, fitting), need_text(need.bytes), need.degree,
            need.depth, problem.cost->layers(), budget_text(problem.memory_budget_bytes),
            remedy(problem, sequence, need, fitting)));
    };
    for (std::size_t i = 0; i < problem.sequences.size(); ++i) {
        const Sequence& sequence = problem.sequences[i];
        require_fit(sequence, fmt::format("sequence {} (id {})", i, sequence.id));
    }
    if (problem.longest_tokens > 0) {
        require_fit({.id = -1, .tokens = problem.longest_tokens},
                    "the longest sequence of the run");
    }
}

}  // namespace dcp::plan
