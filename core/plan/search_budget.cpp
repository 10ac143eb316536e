#include "core/plan/search_budget.hpp"

namespace dcp::plan {

namespace {

constexpr double kFewTargets[] = {1.02, 1.06, 3.0};
constexpr double kFarTargets[] = {1.3, 3.0};  // where the bound says little

// Small problems are done in milliseconds whatever is tried, and leave search the least room.
constexpr std::size_t kFewSequences = 128;
constexpr std::size_t kVeryFewSequences = 48;
constexpr std::size_t kPackedExactly = 160;
// From one seed to another arrangements differ most where ranks have few micro-batches: below so
// many sequences there is time for several.
constexpr std::size_t kSomeSequences = 512;
// On few ranks the best number of micro-batches is what matters most.
constexpr int kFewRanks = 8;
constexpr std::size_t kMostOnFewRanks = 1024;

SearchBudget least_budget() {
    return {.targets = kOneTarget,
            .far_targets = kFarTargets,
            .waste_shares = {0.4},
            .solo_shares = {1.0},
            .spare_shares = {0.0},
            .merge_shares = {0.85},
            .most_packs = 1,
            .most_thrifty_packs = 1,
            .arrangements = {{.fills_gangs = true, .fits_gangs = true}},
            .enough = 1.01,
            .families_from = 1.05,
            .gangs_also_stay = false,
            .arrange_moves_a_sequence = 1,
            .kept = 1,
            .finalists = 1,
            .moves_a_sequence = 2,
            .final_moves_a_sequence = 20};
}

void repeat_arrangements(int times, SearchBudget& budget) {
    const std::vector<ArrangementStart> starts = budget.arrangements;
    for (int again = 1; again < times; ++again) {
        budget.arrangements.insert(budget.arrangements.end(), starts.begin(), starts.end());
    }
}

// The longer gangs are moved about, the more short sequences end in them, and the fewer are left to
// level ranks with: where micro-batches of any length cost about alike (with recomputation) the
// best plans come from gangs that have hardly been moved, often of degrees that nest.
constexpr double kBrief[] = {1.0 / 40, 1.0 / 400};

void add_brief_arrangements(int times, SearchBudget& budget) {
    for (; times > 0; --times) {
        for (const double moves : kBrief) {
            for (const bool nested : {false, true}) {
                budget.arrangements.push_back({.fills_gangs = true,
                                               .nested_degrees = nested,
                                               .fits_gangs = true,
                                               .moves = moves});
            }
        }
    }
}

// In a hurry.
constexpr std::int64_t kPieceArrangeMoves = 120;  // of one of several pieces
// So small a part of the cluster is searched less where ranks differ in speed, which takes longer.
constexpr double kFewPieces = 0.1;
constexpr int kWideRanks = 128;                 // where the ranks are what takes long
constexpr std::int64_t kWideLooks = 4'000'000;  // a few hundredths of a second

SearchBudget fast_budget(const Problem& problem, double share) {
    const std::size_t num_sequences = problem.sequences.size();
    const bool is_few = num_sequences < kFewSequences;
    const bool is_hurried = share < kFewPieces && !problem.topology.speeds.empty();
    if (is_few && !is_hurried) {
        return {.targets = kFewTargets,
                .arrange_moves_a_sequence = 40,
                .kept = 2,
                .finalists = 2,
                .moves_a_sequence = 20,
                .final_moves_a_sequence = 100};
    }
    SearchBudget budget = least_budget();
    if (share < 1) {
        if (is_few) {
            budget.targets = kFewTargets;
            budget.far_targets = {};
            budget.families_from = 1.02;
            budget.arrange_moves_a_sequence = 10;
            budget.least_moves = 300;
            budget.moves_a_sequence = 10;
            return budget;
        }
        budget.targets = {};
        budget.far_targets = {};
        if (share < 0.5) {
            budget.arrange_moves_a_sequence = 0;
            budget.least_arrange_moves = kPieceArrangeMoves;
        }
        budget.moves_a_sequence = 0;  // the whole is improved, once
        budget.final_moves_a_sequence = 0;
    } else if (problem.topology.ranks <= kFewRanks && num_sequences < kMostOnFewRanks) {
        budget.most_packs = 4;
        budget.most_thrifty_packs = 4;
        budget.kept = 2;
        budget.finalists = 2;
        budget.least_moves = 500;
    }
    return budget;
}

SearchBudget background_budget(const Problem& problem, double share) {
    const std::size_t num_sequences = problem.sequences.size();
    SearchBudget budget;
    if (num_sequences < kVeryFewSequences) {
        budget.arrange_moves_a_sequence *= 4;
        budget.kept = 10;
        budget.finalists = 12;
    } else if (num_sequences < kPackedExactly) {
        repeat_arrangements(8, budget);
        budget.finalists = 12;
        budget.fullest_merge_shares = {0.0, 0.85, 0.9, 0.93, 0.95, 0.96, 0.97, 0.98, 0.99, 0.995};
    } else if (share == 1 && num_sequences < kSomeSequences) {
        repeat_arrangements(5, budget);
        budget.kept = 10;
        budget.finalists = 12;
    } else if (num_sequences >= kSomeSequences && problem.topology.ranks > kFewRanks) {
        // What takes time without making plans shorter there.
        budget.most_thrifty_packs = 1;
        if (num_sequences < 2 * kSomeSequences) {
            budget.arrange_moves_a_sequence /= 2;
            budget.final_moves_a_sequence = 600;
        }
    }
    add_brief_arrangements(num_sequences < kSomeSequences ? 4 : 1, budget);
    if (share < 0.5) {
        const auto scale = [share](std::int64_t& count) {
            count = static_cast<std::int64_t>(static_cast<double>(count) * share);
        };
        budget.targets = kFewTargets;
        budget.waste_shares = {0.4};
        budget.kept = 2;
        budget.finalists = 2;
        scale(budget.arrange_moves_a_sequence);
        scale(budget.moves_a_sequence);
        scale(budget.final_moves_a_sequence);
    }
    return budget;
}

}  // namespace

SearchBudget budget_of(Effort effort, const Problem& problem, double share) {
    if (effort == Effort::kBackground) {
        return background_budget(problem, share);
    }
    SearchBudget budget = fast_budget(problem, share);
    if (problem.topology.ranks >= kWideRanks) {
        budget.most_arrange_looks = kWideLooks;
    }
    return budget;
}

}  // namespace dcp::plan
