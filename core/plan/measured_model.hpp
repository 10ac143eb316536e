// What a micro-batch costs by measurement. Every strategy and link class that was measured has its
// own curve over the tokens of the group: between two measured token counts costs are linear, and
// what squared tokens add is one rate for the whole curve, found from micro-batches of as many
// tokens in sequences of different lengths.
//
// Outside of what was measured the model continues so that it rather costs too much, and covers()
// says so: fewer tokens cost what the fewest measured cost, more tokens cost as much more as the
// steeper of the last piece and the line through the origin. A strategy that was not measured at
// all has no cost: an error.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/plan/cost_model.hpp"
#include "core/plan/profile.hpp"

namespace dcp::plan {

class MeasuredModel final : public CostModel {
public:
    // For this many ranks on nodes of this size. PlanError names what is missing or wrong: no
    // points; a curve whose token counts were all measured with one sum of squares only.
    MeasuredModel(Profile profile, int ranks, int ranks_per_node);

    std::string_view name() const override { return profile_.name; }
    int layers() const override { return profile_.layers; }
    double per_iteration_seconds() const override {
        return profile_.reduction_seconds + profile_.optimizer_seconds;
    }
    StepCost cost(const Load& load, const Strategy& strategy, int recompute_layers) const override;
    LinearCost linear(int degree, int recompute_layers) const override;
    std::vector<CostPiece> pieces(int degree, int recompute_layers) const override;
    double squared_tokens(const Sequence& sequence) const override;
    bool covers(const Load& load, const Strategy& strategy) const override;

    const Profile& profile() const { return profile_; }
    double static_bytes() const { return static_bytes_; }
    // Degrees whose preferred strategy was measured with the links that it would have here.
    std::vector<int> degrees() const;
    // Largest error of a curve at one of its points: seconds of a layer, forward and backward, over
    // what was measured.
    double worst_error() const { return worst_error_; }

private:
    struct Times {  // of one layer
        double forward = 0;
        double backward = 0;
        double recompute = 0;
    };
    struct Knot {
        std::int64_t tokens = 0;
        Times seconds;  // squared tokens aside
        double kept_bytes = 0;
        double checkpoint_bytes = 0;
        double working_bytes = 0;
    };
    struct Curve {
        Strategy strategy;
        LinkClass link = LinkClass::kNone;
        std::vector<Knot> knots;  // by rising tokens; seconds and bytes never fall
        Times squared_token_seconds;
        double least_mean_length = 0;  // squared tokens a token
        double most_mean_length = 0;
        std::vector<std::vector<CostPiece>> pieces;  // by recompute depth
    };
    Curve fit(const std::vector<ProfilePoint>& points);
    const Curve* find(const Strategy& strategy) const;
    const Curve& curve(const Strategy& strategy) const;
    std::vector<CostPiece> pieces_of(const Curve& curve, int recompute_layers) const;

    Profile profile_;
    int ranks_per_node_ = 1;
    int ranks_ = 1;
    double static_bytes_ = 0;
    double worst_error_ = 0;
    std::vector<Curve> curves_;
};

}  // namespace dcp::plan
