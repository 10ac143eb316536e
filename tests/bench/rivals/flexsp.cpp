#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "tests/bench/rivals/mixed_integer.hpp"
#include "tests/bench/rivals/rivals.hpp"

namespace dcp::bench {

namespace {

using plan::Load;

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::size_t kBuckets = 16;

using Chunk = std::vector<std::int32_t>;  // by falling length

struct Bucket {
    std::int64_t tokens = 0;  // what every sequence of it counts as
    Chunk sequences;
};

struct Group {
    int degree = 1;
    Chunk sequences;
};

struct Solved {
    std::vector<Group> groups;
    double seconds = kNever;  // of the slowest
};

// Consecutive chunks of at most `most` tokens.
std::vector<Chunk> cut(const RunCosts& costs, const Chunk& order, std::int64_t most) {
    std::vector<Chunk> chunks;
    std::int64_t tokens = 0;
    for (const std::int32_t sequence : order) {
        if (chunks.empty() || tokens + costs.tokens(sequence) > most) {
            chunks.emplace_back();
            tokens = 0;
        }
        chunks.back().push_back(sequence);
        tokens += costs.tokens(sequence);
    }
    return chunks;
}

// At most `count` consecutive chunks, the greatest number of tokens as small as can be.
std::vector<Chunk> blast(const RunCosts& costs, const Chunk& order, std::size_t count) {
    std::int64_t low = costs.tokens(order.front()) - 1;
    std::int64_t high = 0;
    for (const std::int32_t sequence : order) {
        high += costs.tokens(sequence);
    }
    while (high - low > 1) {
        const std::int64_t middle = low + (high - low) / 2;
        (cut(costs, order, middle).size() <= count ? high : low) = middle;
    }
    return cut(costs, order, high);
}

// The chunk in `count` buckets at most, with least added by rounding up: dynamic programme over
// (sequences from the longest, buckets).
std::vector<Bucket> buckets_of(const RunCosts& costs, const Chunk& chunk, std::size_t count) {
    const std::size_t size = chunk.size();
    std::vector<double> sum(size + 1, 0.0);  // of the first lengths
    for (std::size_t i = 0; i < size; ++i) {
        sum[i + 1] = sum[i] + static_cast<double>(costs.tokens(chunk[i]));
    }
    std::vector<double> added(size + 1, kNever);
    added[0] = 0;
    std::vector<std::vector<std::size_t>> from;
    for (std::size_t bucket = 0; bucket < std::min(count, size); ++bucket) {
        std::vector<double> next(size + 1, kNever);
        std::vector<std::size_t> begins(size + 1, 0);
        next[0] = 0;
        for (std::size_t begin = 0; begin < size; ++begin) {
            const auto rounded = static_cast<double>(costs.tokens(chunk[begin]));
            for (std::size_t end = begin + 1; end <= size; ++end) {
                const double total = added[begin] + rounded * static_cast<double>(end - begin) -
                                     (sum[end] - sum[begin]);
                if (total < next[end]) {
                    next[end] = total;
                    begins[end] = begin;
                }
            }
        }
        added = std::move(next);
        from.push_back(std::move(begins));
    }
    std::vector<Bucket> buckets;
    std::size_t end = size;
    for (std::size_t bucket = from.size(); bucket-- > 0 && end > 0;) {
        const std::size_t begin = from[bucket][end];
        buckets.push_back({.tokens = costs.tokens(chunk[begin]),
                           .sequences = {chunk.begin() + static_cast<std::ptrdiff_t>(begin),
                                         chunk.begin() + static_cast<std::ptrdiff_t>(end)}});
        end = begin;
    }
    std::reverse(buckets.begin(), buckets.end());
    return buckets;
}

// More buckets while rounding fills more than half of what is left of the cluster's memory.
std::vector<Bucket> buckets_of(const RunCosts& costs, const Chunk& chunk) {
    std::int64_t tokens = 0;
    for (const std::int32_t sequence : chunk) {
        tokens += costs.tokens(sequence);
    }
    for (std::size_t count = kBuckets;; count *= 2) {
        std::vector<Bucket> buckets = buckets_of(costs, chunk, count);
        std::int64_t padded = 0;
        for (const Bucket& bucket : buckets) {
            padded += bucket.tokens * static_cast<std::int64_t>(bucket.sequences.size());
        }
        if (2 * padded <= tokens + costs.world_tokens() || count >= chunk.size()) {
            return buckets;
        }
    }
}

// How many sequences of each bucket go to each group.
struct Allotment {
    std::vector<int> degrees;              // of groups
    std::vector<std::vector<int>> counts;  // by bucket, group
    double seconds = kNever;
};

// The best split with groups of one degree: longest first to the group that ends soonest.
Allotment one_degree(const RunCosts& costs, const std::vector<Bucket>& buckets, int degree) {
    const auto num_groups = static_cast<std::size_t>(costs.problem().topology.ranks / degree);
    Allotment allotment{
        .degrees = std::vector<int>(num_groups, degree), .counts = {}, .seconds = 0};
    std::vector<Load> loads(num_groups);
    for (const Bucket& bucket : buckets) {
        std::vector<int>& counts = allotment.counts.emplace_back(num_groups, 0);
        for (std::size_t i = 0; i < bucket.sequences.size(); ++i) {
            std::size_t best = num_groups;
            double best_end = kNever;
            for (std::size_t group = 0; group < num_groups; ++group) {
                Load load = loads[group];
                load += plan::load_of(bucket.tokens);
                const double end = costs.seconds(degree, load);
                if (load.tokens <= costs.most_tokens(degree) && end < best_end) {
                    best = group;
                    best_end = end;
                }
            }
            if (best == num_groups) {
                return {};
            }
            loads[best] += plan::load_of(bucket.tokens);
            ++counts[best];
            allotment.seconds = std::max(allotment.seconds, best_end);
        }
    }
    return allotment;
}

Allotment best_start(const RunCosts& costs,
                     const std::vector<Bucket>& buckets,
                     const std::vector<int>& domain) {
    Allotment best;
    for (const int degree : domain) {
        Allotment allotment = one_degree(costs, buckets, degree);
        if (allotment.seconds < best.seconds) {
            best = std::move(allotment);
        }
    }
    return best;
}

// The program of a chunk. Variables: A[k, g] sequences of bucket k on candidate group g, use[g],
// and the makespan M that is minimised.
class ChunkProgram {
public:
    ChunkProgram(const RunCosts& costs,
                 const std::vector<Bucket>& buckets,
                 const std::vector<int>& domain)
        : costs_(costs), buckets_(buckets) {
        for (const int degree : domain) {
            for (int g = 0; g < costs.problem().topology.ranks / degree; ++g) {
                degrees_.push_back(degree);
            }
        }
        makespan_ = program_.add_variable(kNever, 1, false);
        for (std::size_t g = 0; g < degrees_.size(); ++g) {
            use_.push_back(program_.add_variable(1, 0, true));
        }
        for (const Bucket& bucket : buckets) {
            std::vector<int>& row = amounts_.emplace_back();
            for (const int degree : degrees_) {
                const bool fits = bucket.tokens <= costs.most_tokens(degree);
                row.push_back(program_.add_variable(
                    fits ? static_cast<double>(bucket.sequences.size()) : 0, 0, true));
            }
        }
        add_rows();
    }

    Allotment solve(double limit_seconds, const Allotment& start) {
        const auto values = program_.solve(limit_seconds, start_values(start));
        if (!values) {
            return start;
        }
        Allotment found{.degrees = degrees_, .counts = {}, .seconds = (*values)[0]};
        for (const std::vector<int>& row : amounts_) {
            std::vector<int>& counts = found.counts.emplace_back();
            for (const int amount : row) {
                counts.push_back(
                    static_cast<int>(std::lround((*values)[static_cast<std::size_t>(amount)])));
            }
        }
        return found.seconds < start.seconds ? found : start;
    }

private:
    void add_rows() {
        std::vector<std::pair<int, double>> ranks;
        for (std::size_t g = 0; g < degrees_.size(); ++g) {
            const int degree = degrees_[g];
            const double fixed = costs_.seconds(degree, {});
            std::vector<std::pair<int, double>> tokens{
                {use_[g], -static_cast<double>(costs_.most_tokens(degree))}};
            std::vector<std::pair<int, double>> seconds{{makespan_, -1}, {use_[g], fixed}};
            for (std::size_t k = 0; k < buckets_.size(); ++k) {
                tokens.emplace_back(amounts_[k][g], static_cast<double>(buckets_[k].tokens));
                seconds.emplace_back(
                    amounts_[k][g],
                    costs_.seconds(degree, plan::load_of(buckets_[k].tokens)) - fixed);
            }
            program_.add_row(-kNever, 0, tokens);
            program_.add_row(-kNever, 0, seconds);
            ranks.emplace_back(use_[g], degree);
        }
        program_.add_row(-kNever, costs_.problem().topology.ranks, ranks);
        for (std::size_t k = 0; k < buckets_.size(); ++k) {
            std::vector<std::pair<int, double>> all;
            for (const int amount : amounts_[k]) {
                all.emplace_back(amount, 1);
            }
            const auto size = static_cast<double>(buckets_[k].sequences.size());
            program_.add_row(size, size, all);
        }
    }

    std::vector<double> start_values(const Allotment& start) const {
        if (start.degrees.empty()) {
            return {};
        }
        std::size_t first = 0;  // candidate group of the start's degree
        while (degrees_[first] != start.degrees.front()) {
            ++first;
        }
        std::vector<double> values(1 + degrees_.size() * (1 + buckets_.size()), 0.0);
        values[0] = start.seconds;
        for (std::size_t k = 0; k < buckets_.size(); ++k) {
            for (std::size_t g = 0; g < start.degrees.size(); ++g) {
                const int count = start.counts[k][g];
                values[static_cast<std::size_t>(amounts_[k][first + g])] = count;
                if (count > 0) {
                    values[static_cast<std::size_t>(use_[first + g])] = 1;
                }
            }
        }
        return values;
    }

    const RunCosts& costs_;
    const std::vector<Bucket>& buckets_;
    MixedInteger program_;
    std::vector<int> degrees_;  // of candidate groups
    int makespan_ = 0;
    std::vector<int> use_;
    std::vector<std::vector<int>> amounts_;
};

Solved with_real_sequences(const RunCosts& costs,
                           const std::vector<Bucket>& buckets,
                           const Allotment& allotment) {
    Solved solved{.groups = {}, .seconds = 0};
    std::vector<std::size_t> taken(buckets.size(), 0);
    for (std::size_t g = 0; g < allotment.degrees.size(); ++g) {
        Group group{.degree = allotment.degrees[g], .sequences = {}};
        Load load;
        for (std::size_t k = 0; k < buckets.size(); ++k) {
            for (int i = 0; i < allotment.counts[k][g]; ++i) {
                const std::int32_t sequence = buckets[k].sequences[taken[k]++];
                group.sequences.push_back(sequence);
                load += plan::load_of(costs.tokens(sequence));
            }
        }
        if (!group.sequences.empty()) {
            solved.seconds = std::max(solved.seconds, costs.seconds(group.degree, load));
            solved.groups.push_back(std::move(group));
        }
    }
    return solved;
}

// Nothing where the chunk does not fit.
std::optional<Solved> solve_chunk(const RunCosts& costs,
                                  const Chunk& chunk,
                                  const std::vector<int>& domain,
                                  double limit_seconds) {
    const std::vector<Bucket> buckets = buckets_of(costs, chunk);
    const Allotment start = best_start(costs, buckets, domain);
    const Allotment best = ChunkProgram(costs, buckets, domain).solve(limit_seconds, start);
    if (best.degrees.empty()) {
        return std::nullopt;
    }
    return with_real_sequences(costs, buckets, best);
}

PhasedPlan in_phases(const RunCosts& costs, const std::vector<Solved>& chunks) {
    Phases phases(costs);
    for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
        if (chunk > 0) {
            phases.begin();
        }
        std::vector<Group> groups = chunks[chunk].groups;
        std::stable_sort(groups.begin(), groups.end(),
                         [](const Group& a, const Group& b) { return a.degree > b.degree; });
        for (const Group& group : groups) {
            if (!phases.place(group.degree, group.sequences)) {
                phases.begin();  // nodes of an odd size: no place is left beside the others
                phases.place(group.degree, group.sequences);
            }
        }
    }
    return std::move(phases).finish();
}

}  // namespace

PhasedPlan FlexSpPlanner::phased(const plan::Problem& problem) const {
    const RunCosts costs(problem);
    if (problem.sequences.empty()) {
        return Phases(costs).finish();
    }
    const std::vector<int> domain = power_of_two_domain(costs, 2);
    const Chunk order = costs.longest_first();
    std::int64_t tokens = 0;
    for (const std::int32_t sequence : order) {
        tokens += costs.tokens(sequence);
    }
    const std::int64_t world = costs.world_tokens();
    auto count = static_cast<std::size_t>((tokens + world - 1) / world);
    std::vector<Solved> best;
    double best_seconds = kNever;
    // Every sequence fits alone, so some number of chunks works.
    for (int tried = 0; tried < options_.chunk_counts || best.empty(); ++tried, ++count) {
        std::vector<Solved> chunks;
        double seconds = 0;
        for (const Chunk& chunk : blast(costs, order, count)) {
            const std::optional<Solved> solved =
                solve_chunk(costs, chunk, domain, options_.limit_seconds);
            seconds += solved ? solved->seconds : kNever;
            if (!solved) {
                break;
            }
            chunks.push_back(*solved);
        }
        if (seconds < best_seconds) {
            best_seconds = seconds;
            best = std::move(chunks);
        }
        if (count >= order.size() && !best.empty()) {
            break;
        }
    }
    return in_phases(costs, best);
}

}  // namespace dcp::bench
