#include "core/plan/fullest.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "core/plan/draft.hpp"

namespace dcp::plan {

namespace {

// Beyond so many bits tokens are counted in larger units, rounded up.
constexpr std::int64_t kMostBits = 16'000'000;

// Sums that can be reached, a bit each.
class Sums {
public:
    explicit Sums(std::int64_t most)
        : most_(most), words_(static_cast<std::size_t>(most) / kBits + 1, 0) {
        words_[0] = 1;
    }

    // The greatest that is no more than this.
    std::int64_t nearest(std::int64_t sum) const {
        std::size_t word = static_cast<std::size_t>(sum) / kBits;
        const auto above = static_cast<unsigned>(kBits - 1 - static_cast<std::size_t>(sum) % kBits);
        std::uint64_t bits = words_[word] << above >> above;
        while (bits == 0) {  // 0 is always there
            bits = words_[--word];
        }
        const auto highest = static_cast<std::int64_t>(std::bit_width(bits)) - 1;
        return static_cast<std::int64_t>(word * kBits) + highest;
    }

    // Those with one number more, besides.
    void add(std::int64_t number) {
        if (number > most_) {
            return;
        }
        const std::size_t shift = static_cast<std::size_t>(number) / kBits;
        const std::size_t bits = static_cast<std::size_t>(number) % kBits;
        for (std::size_t i = words_.size(); i-- > shift;) {
            std::uint64_t moved = words_[i - shift] << bits;
            if (bits > 0 && i > shift) {
                moved |= words_[i - shift - 1] >> (kBits - bits);
            }
            words_[i] |= moved;
        }
    }

private:
    static constexpr std::size_t kBits = 64;
    std::int64_t most_;
    std::vector<std::uint64_t> words_;
};

}  // namespace

std::vector<std::size_t> fullest(const std::vector<std::int64_t>& tokens,
                                 std::int64_t room,
                                 std::int64_t slack) {
    std::vector<std::size_t> chosen;
    if (std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0}) <= room) {
        chosen.resize(tokens.size());
        std::iota(chosen.begin(), chosen.end(), std::size_t{0});
        return chosen;
    }
    std::int64_t left = std::max<std::int64_t>(room, 0);
    // with[i]: of the last i numbers, which are the short ones.
    std::vector<Sums> with{Sums(left)};
    for (std::size_t i = tokens.size(); i-- > 0;) {
        with.push_back(with.back());
        with.back().add(tokens[i]);
    }
    slack = std::max(slack, left - with.back().nearest(left));
    for (std::size_t i = 0; left > slack; ++i) {
        const std::int64_t then = left - tokens[i];
        if (then >= 0 && then - with[tokens.size() - i - 1].nearest(then) <= slack) {
            chosen.push_back(i);
            left = then;
        }
    }
    return chosen;
}

void fill_up(const Problem& problem,
             const MicroCosts& costs,
             double most_seconds,
             Gang& gang,
             std::vector<std::int32_t>& longest_first) {
    const std::int64_t room = costs.most_tokens(gang.degree_index) - gang.load.tokens;
    const std::int64_t unit =
        1 + room * static_cast<std::int64_t>(longest_first.size()) / kMostBits;
    const auto sequence = [&](std::size_t at) {
        return problem.sequences[static_cast<std::size_t>(longest_first[at])];
    };
    std::vector<std::int64_t> tokens;
    for (std::size_t at = 0; at < longest_first.size(); ++at) {
        tokens.push_back((sequence(at).tokens + unit - 1) / unit);
    }
    // Of all memory that the fewest micro-batches have, this gang's part of what stays empty.
    const std::int64_t most = costs.most_tokens(0);
    const std::int64_t all = gang.load.tokens + load_of(problem, longest_first).tokens;
    const std::int64_t micro_batches = most > 0 ? (all + most - 1) / most : 0;
    const std::int64_t slack = micro_batches > 0 ? (micro_batches * most - all) / micro_batches *
                                                       costs.degree(gang.degree_index)
                                                 : 0;
    std::vector<std::size_t> chosen = fullest(tokens, room / unit, slack / unit);
    Load load = gang.load;
    for (const std::size_t at : chosen) {
        load += load_of(sequence(at));
    }
    while (!chosen.empty() && costs.seconds(gang.degree_index, load) > most_seconds) {
        load = load - load_of(sequence(chosen.back()));
        chosen.pop_back();
    }
    for (const std::size_t at : chosen) {
        gang.sequences.push_back(longest_first[at]);
        longest_first[at] = -1;
    }
    std::erase(longest_first, -1);
    gang.load = load;
    gang.seconds = costs.seconds(gang.degree_index, load);
}

}  // namespace dcp::plan
