// The closed-form cost model, format `dcp-cost-1`. For T tokens and Q squared tokens on p ranks
// with k of L layers recomputed:
//
//   compute = (per_token T + per_token_squared Q) / p
//   comm    = 0 if p = 1, else bytes_per_token T / (p bandwidth(p)) + latency(p)
//   seconds = fixed + (compute + comm) (1 + forward_share k / L)
//   bytes   = static + T / p ((L - k) a + k c + (a if k > 0 else 0))
//
// Real divisions, nothing rounded. The strategy does not matter to it, only the degree.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/plan/cost_model.hpp"

namespace dcp::plan {

struct ClosedFormConstants {
    std::string name;
    int layers = 1;

    double fixed_seconds = 0;  // of a micro-batch
    double token_seconds = 0;  // forward + backward on one rank
    double squared_token_seconds = 0;
    double forward_share = 1.0 / 3;  // what a recomputed layer does again
    double per_iteration_seconds = 0;

    double communication_token_bytes = 0;  // forward + backward, whole model
    std::map<int, double> bandwidths;      // by degree: bytes per second
    std::map<int, double> latencies;       // by degree: seconds per micro-batch

    double static_bytes = 0;
    double layer_token_bytes = 0;       // a: kept by a layer that does not recompute
    double checkpoint_token_bytes = 0;  // c: kept by a layer that does
};

class ClosedForm final : public CostModel {
public:
    explicit ClosedForm(
        ClosedFormConstants constants);  // PlanError where a constant has no meaning

    std::string_view name() const override { return constants_.name; }
    int layers() const override { return constants_.layers; }
    double per_iteration_seconds() const override { return constants_.per_iteration_seconds; }
    StepCost cost(const Load& load, const Strategy& strategy, int recompute_layers) const override;
    LinearCost linear(int degree, int recompute_layers) const override;

    // Between two listed degrees log(bandwidth) is linear in log(degree) and latency in the degree;
    // beyond the ends, the end's value.
    double bandwidth(int degree) const;
    double latency(int degree) const;

private:
    double token_bytes(int recompute_layers) const;  // kept by a rank for each token it holds
    double interpolated_bandwidth(int degree) const;

    ClosedFormConstants constants_;
    std::vector<double> bandwidths_;  // of degrees from 0 up, as far as the table reaches
};

}  // namespace dcp::plan
