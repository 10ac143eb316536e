// What a micro-batch costs on a group: seconds and peak bytes. Every planner sees the cluster and
// the model only through this.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/plan/strategy.hpp"

namespace dcp::plan {

// All that a cost depends on of the sequences of a micro-batch.
struct Load {
    std::int64_t tokens = 0;
    double squared_tokens = 0;  // sum over sequences of tokens * tokens

    Load& operator+=(const Load& other) {
        tokens += other.tokens;
        squared_tokens += other.squared_tokens;
        return *this;
    }
};

inline Load load_of(std::int64_t tokens) {
    return {tokens, static_cast<double>(tokens) * static_cast<double>(tokens)};
}

struct StepCost {
    double fixed_seconds = 0;          // whatever the load is
    double compute_seconds = 0;        // forward, backward and what is recomputed
    double communication_seconds = 0;  // inside the group
    double peak_bytes = 0;             // of each rank, everything static included

    double seconds() const { return fixed_seconds + compute_seconds + communication_seconds; }
};

// Coefficients for searches that try millions of loads:
//   seconds = fixed_seconds + token_seconds * tokens + squared_token_seconds * squared_tokens
//   bytes   = static_bytes + token_bytes * tokens
struct LinearCost {
    double fixed_seconds = 0;
    double token_seconds = 0;
    double squared_token_seconds = 0;
    double static_bytes = 0;
    double token_bytes = 0;

    double seconds(const Load& load) const {
        return fixed_seconds + token_seconds * static_cast<double>(load.tokens) +
               squared_token_seconds * load.squared_tokens;
    }
    double bytes(const Load& load) const {
        return static_bytes + token_bytes * static_cast<double>(load.tokens);
    }
};

class CostModel {
public:
    virtual ~CostModel() = default;

    virtual std::string_view name() const = 0;
    virtual int layers() const = 0;                    // the recompute depth runs from 0 to this
    virtual double per_iteration_seconds() const = 0;  // once: gradient reduction, optimizer

    // On a group that obeys the node rule, of ranks of speed 1.
    virtual StepCost cost(const Load& load,
                          const Strategy& strategy,
                          int recompute_layers) const = 0;

    // The same for the strategies a planner prefers; exact where the model is linear.
    virtual LinearCost linear(int degree, int recompute_layers) const = 0;
};

}  // namespace dcp::plan
