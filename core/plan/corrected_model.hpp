// A cost model corrected by what micro-batches were measured to take: for every SP degree factors
// on the seconds that depend on tokens, one on the seconds of squared tokens, and bytes that were
// needed beyond what the model says. It keeps the promises of CostModel, so planners and bounds are
// as exact with it as with the model inside.
//
//   seconds = F(tokens) + squared factor * (seconds of squared tokens)
//   F       = factor(tokens) * (seconds of tokens) at every knot, and straight between knots
//
// Knots are the ends of the inner model's pieces and the tokens that a factor is given for. F never
// falls: where factors would make it fall it stays level.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "core/plan/cost_model.hpp"

namespace dcp::plan {

struct TokenFactor {
    std::int64_t tokens = 1;  // of the whole micro-batch
    double factor = 1;        // linear in log(tokens) between two, constant outside
};

struct MoreBytes {
    std::int64_t tokens = 1;  // micro-batches of so many tokens or more
    double bytes = 0;         // need so many more
};

struct DegreeCorrection {
    std::vector<TokenFactor> tokens;  // by rising tokens; empty: factor 1
    double squared = 1;
    std::vector<MoreBytes> bytes;  // both rising
};

class CorrectedModel final : public CostModel {
public:
    // By SP degree; a degree without an entry is as the inner model says. PlanError where factors
    // are not positive or lists do not rise.
    CorrectedModel(std::shared_ptr<const CostModel> inner,
                   std::map<int, DegreeCorrection> corrections);

    std::string_view name() const override { return inner_->name(); }
    int layers() const override { return inner_->layers(); }
    double per_iteration_seconds() const override { return inner_->per_iteration_seconds(); }
    StepCost cost(const Load& load, const Strategy& strategy, int recompute_layers) const override;
    LinearCost linear(int degree, int recompute_layers) const override;
    std::vector<CostPiece> pieces(int degree, int recompute_layers) const override;
    double squared_tokens(const Sequence& sequence) const override {
        return inner_->squared_tokens(sequence);
    }
    bool covers(const Load& load, const Strategy& strategy) const override {
        return inner_->covers(load, strategy);
    }

private:
    // Of a depth of a corrected degree.
    struct Pieces {
        std::vector<CostPiece> inner;
        std::vector<CostPiece> corrected;
    };
    struct Degree {
        DegreeCorrection correction;
        std::vector<Pieces> by_depth;
    };
    const Degree* find(int degree) const;

    std::shared_ptr<const CostModel> inner_;
    std::map<int, Degree> degrees_;
};

// What a correction says of a micro-batch of so many tokens.
double factor_at(const DegreeCorrection& correction, std::int64_t tokens);
double more_bytes_at(const DegreeCorrection& correction, std::int64_t tokens);

}  // namespace dcp::plan
