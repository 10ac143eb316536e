// Costs for searches: every allowed degree with the recompute depths worth having, as coefficients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/plan/problem.hpp"

namespace dcp::plan {

class MicroCosts {
public:
    // The depths of a degree, shallow first, and the pieces of a depth: each holds more tokens than
    // the one before. A micro-batch recomputes as little as its tokens allow.
    struct Level {
        int depth = 0;
        std::int64_t most_tokens = 0;
        double fixed_seconds = 0;
        double token_seconds = 0;
        double squared_seconds = 0;
    };

    explicit MicroCosts(const Problem& problem);
    // Those of a problem that differs in its sequences, its ranks and what it allows of these
    // degrees.
    MicroCosts(const MicroCosts& all, const std::vector<int>& degrees);

    std::size_t num_degrees() const { return degrees_.size(); }
    int degree(std::size_t index) const { return degrees_[index]; }
    const std::vector<Level>& levels(std::size_t index) const { return levels_[index]; }
    std::int64_t most_tokens(std::size_t index) const {  // 0: the degree holds nothing
        return most_tokens_[index];
    }

    // A micro-batch of several sequences that holds more costs more a token: it recomputes deeper,
    // or no longer fits a cache. At most most_tokens().
    std::int64_t thrifty_tokens(std::size_t index) const { return thrifty_tokens_[index]; }

    // Nothing where the group cannot hold the tokens.
    const Level* level(std::size_t index, std::int64_t tokens) const {
        for (const Level& level : levels_[index]) {
            if (tokens <= level.most_tokens) {
                return &level;
            }
        }
        return nullptr;
    }

    // On ranks of speed 1; infinity where they cannot hold the load.
    double seconds(std::size_t index, const Load& load) const {
        const Level* found = level(index, load.tokens);
        return found == nullptr ? std::numeric_limits<double>::infinity()
                                : found->fixed_seconds +
                                      found->token_seconds * static_cast<double>(load.tokens) +
                                      found->squared_seconds * load.squared_tokens;
    }

private:
    std::vector<int> degrees_;
    std::vector<std::vector<Level>> levels_;
    std::vector<std::int64_t> most_tokens_;
    std::vector<std::int64_t> thrifty_tokens_;
};

// One recompute depth of a degree: its pieces that hold more than `least_tokens`.
std::vector<MicroCosts::Level> levels_at(const Problem& problem,
                                         int degree,
                                         int depth,
                                         std::int64_t least_tokens);

}  // namespace dcp::plan
