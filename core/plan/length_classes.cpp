#include "core/plan/length_classes.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace dcp::plan {

namespace {

constexpr std::size_t kNumClasses = 64;  // by powers of two: every length has one
constexpr double kNever = std::numeric_limits<double>::infinity();

std::size_t class_of(std::int64_t tokens) {
    return static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(tokens - 1)));
}

}  // namespace

LengthClasses::LengthClasses(const Problem& problem,
                             bool keeps_activations,
                             std::vector<int> degrees)
    : problem_(problem), keeps_activations_(keeps_activations), degrees_(std::move(degrees)) {
    std::vector<std::vector<std::int32_t>> all(kNumClasses);
    for (std::size_t i = 0; i < problem.sequences.size(); ++i) {
        all[class_of(problem.sequences[i].tokens)].push_back(static_cast<std::int32_t>(i));
    }
    const std::int64_t longest = problem.longest();
    for (std::size_t c = 0; c < kNumClasses; ++c) {
        if (!all[c].empty()) {
            classes_.push_back({.sequences = std::move(all[c]), .seconds = {}});
            weigh(classes_.back(), std::min(std::int64_t{1} << c, longest));
        }
    }
}

void LengthClasses::weigh(Class& one, std::int64_t tokens) const {
    const Load alone = load_like(problem_, tokens);
    for (const int degree : degrees_) {
        std::vector<double>& seconds = one.seconds.emplace_back();
        for (std::size_t size = 1; size <= std::bit_ceil(one.sequences.size()); size *= 2) {
            const Load load{alone.tokens * static_cast<std::int64_t>(size),
                            alone.squared_tokens * static_cast<double>(size)};
            const int layers = depth(load, degree);
            if (layers > problem_.cost->layers()) {
                break;
            }
            seconds.push_back(cost_of(problem_, load, degree, layers).seconds());
        }
    }
}

int LengthClasses::depth(const Load& load, int degree) const {
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
LengthClasses::Shape LengthClasses::best_shape(const Class& one,
                                               std::size_t first,
                                               std::size_t last,
                                               std::size_t num_sizes,
                                               double limit) const {
    Shape best;
    for (std::size_t index = first; index <= last; ++index) {
        const std::vector<double>& all = one.seconds[index];
        for (std::size_t power = 0; power < std::min(num_sizes, all.size()); ++power) {
            const double seconds = all[power];
            const std::size_t size = std::size_t{1} << power;
            const Shape shape{
                .degree_index = index,
                .batch_size = size,
                .seconds = seconds,
                .rank_seconds = degrees_[index] * seconds / static_cast<double>(size)};
            if (seconds > limit && (size > 1 || best.seconds <= limit)) {
                continue;
            }
            const bool is_first_within = seconds <= limit && best.seconds > limit;
            const bool is_better =
                seconds > limit ? seconds < best.seconds : shape.rank_seconds < best.rank_seconds;
            if (is_first_within || is_better) {
                best = shape;
            }
        }
    }
    return best;
}

std::optional<std::vector<LengthClasses::Shape>> LengthClasses::shapes(std::size_t first,
                                                                       std::size_t last,
                                                                       double pace) const {
    double longest_seconds = 0;  // of one sequence at its best throughput
    double rank_seconds = 0;
    for (const Class& one : classes_) {
        const Shape alone = best_shape(one, first, last, 1, kNever);
        longest_seconds = std::max(longest_seconds, alone.seconds);
        rank_seconds += alone.rank_seconds * static_cast<double>(one.sequences.size());
    }
    const double share_seconds = rank_seconds / problem_.topology.ranks;
    const double limit = pace > 0 ? pace * share_seconds : std::max(longest_seconds, share_seconds);
    std::vector<Shape> chosen;
    for (const Class& one : classes_) {
        chosen.push_back(best_shape(one, first, last, kNumClasses, limit));
        if (chosen.back().batch_size == 0) {
            return std::nullopt;
        }
    }
    return chosen;
}

const LengthClasses::Weights& LengthClasses::weights(const Cut& cut, std::size_t degree_index) {
    const auto [place, is_new] =
        weights_.try_emplace({cut.class_index, cut.batch_size, degree_index});
    Weights& weights = place->second;
    if (!is_new) {
        return weights;
    }
    const int degree = degrees_[degree_index];
    const std::size_t count = classes_[cut.class_index].sequences.size();
    weights.seconds.reserve((count + cut.batch_size - 1) / cut.batch_size);
    for (std::size_t begin = 0; begin < count; begin += cut.batch_size) {
        Load load;
        for (const std::int32_t sequence : micro_batch(cut, weights.seconds.size())) {
            load += load_of(problem_.sequences[static_cast<std::size_t>(sequence)]);
        }
        const StepCost cost = cost_of(problem_, load, degree, depth(load, degree));
        const double seconds = cost.seconds();
        if (!weights.seconds.empty() && seconds > weights.seconds[weights.longest]) {
            weights.longest = weights.seconds.size();
        }
        weights.seconds.push_back(seconds);
        const double computation = seconds > 0 ? cost.compute_seconds / seconds : 0;
        weights.least_computation = std::min(weights.least_computation, computation);
        weights.most_computation = std::max(weights.most_computation, computation);
    }
    return weights;
}

std::span<const std::int32_t> LengthClasses::micro_batch(const Cut& cut, std::size_t index) const {
    const std::vector<std::int32_t>& all = classes_[cut.class_index].sequences;
    const std::size_t begin = index * cut.batch_size;
    return std::span(all).subspan(begin, std::min(cut.batch_size, all.size() - begin));
}

}  // namespace dcp::plan
