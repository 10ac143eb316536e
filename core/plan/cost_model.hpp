// What a micro-batch costs on a group: seconds and peak bytes. Every planner sees the cluster and
// the model only through this.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/plan/plan.hpp"
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

inline Load load_of(const Sequence& sequence) {
    return sequence.squared_tokens > 0 ? Load{sequence.tokens, sequence.squared_tokens}
                                       : load_of(sequence.tokens);
}

// Query-key pairs of a sequence: of its one attention, or of spatial (every frame alone) and
// temporal attention (every position alone) together.
double attention_pairs(const Sequence& sequence);

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

// Most bytes that the layers of a model hold at once, where each keeps `kept` bytes, or if it is
// one of the first `recompute_layers`, `checkpoint`. A layer that is computed again is held in
// full, but by then those that kept everything are gone. Recomputing all layers holds no more than
// recomputing some: where that would be wrong (all layers but one), the larger of both is said.
double kept_by_layers(int layers, int recompute_layers, double kept, double checkpoint);

// A line and the loads it holds for: those of more tokens than the piece before, and of at most
// `most_tokens`.
struct CostPiece {
    std::int64_t most_tokens = 0;
    LinearCost line;
};

// The last piece of a cost model ends here.
inline constexpr std::int64_t kUnboundedTokens = std::int64_t{1} << 50;

// What planners and bounds rely on: seconds add up over the sequences of a micro-batch but for a
// function of its tokens, and never fall as tokens or squared tokens grow. Bytes depend on the
// tokens alone and never fall with them.
class CostModel {
public:
    CostModel() = default;
    CostModel(const CostModel&) = default;
    CostModel& operator=(const CostModel&) = default;
    CostModel(CostModel&&) = default;
    CostModel& operator=(CostModel&&) = default;
    virtual ~CostModel() = default;

    virtual std::string_view name() const = 0;
    virtual int layers() const = 0;                    // the recompute depth runs from 0 to this
    virtual double per_iteration_seconds() const = 0;  // once: gradient reduction, optimizer

    // On a group that obeys the node rule, of ranks of speed 1.
    virtual StepCost cost(const Load& load,
                          const Strategy& strategy,
                          int recompute_layers) const = 0;

    // The same for the strategies a planner prefers: a line that is nowhere above the cost, and is
    // the cost where the model is linear. Its fixed_seconds are not negative.
    virtual LinearCost linear(int degree, int recompute_layers) const = 0;

    // The same without error, in pieces of rising tokens. The first has no negative fixed_seconds;
    // all have the same squared_token_seconds.
    virtual std::vector<CostPiece> pieces(int degree, int recompute_layers) const {
        return {{.most_tokens = kUnboundedTokens, .line = linear(degree, recompute_layers)}};
    }

    // What the sequence adds to Load::squared_tokens; weigh() stores it in the sequence. Loads of
    // sequences of two dimensions mean something only to the model that weighed them.
    virtual double squared_tokens(const Sequence& sequence) const {
        return attention_pairs(sequence);
    }

    // False where the cost is a guess beyond what the model knows.
    virtual bool covers(const Load& /*load*/, const Strategy& /*strategy*/) const { return true; }
};

}  // namespace dcp::plan
