// What a micro-batch costs on described hardware: operations and bytes of the model over the rates
// of the machine. Nothing overlaps: products, attention, exchanges add up.
//
// It is exactly linear in tokens and squared tokens, so searches and bounds see it without error.
// That rates grow with size is in it all the same: a product of m rows takes the time of m + m0
// rows, attention over s tokens that of s^2 + s0 s pairs, an exchange its latency more. m0 and s0
// are the sizes at which half of the full rate is reached.
#pragma once

#include <map>
#include <string>

#include "core/plan/cost_model.hpp"
#include "core/plan/model_shape.hpp"

namespace dcp::plan {

// Of one head dimension. Rates count a pair of a query and a key as 4 operations an element of the
// head forward and 10 backward (causal: half of them), as attention kernels are published.
struct AttentionRate {
    double forward_flops = 1;
    double backward_flops = 1;
    double half_tokens = 0;         // sequence length at half the rate
    double causal_half_tokens = 0;  // the same with a causal mask
};

struct Link {
    double bandwidth = 1;  // bytes a second that a rank sends, all ranks sending
    double latency = 0;    // seconds of an exchange of nothing
};

struct Cluster {
    std::string name;
    int ranks_per_node = 1;

    double memory_bytes = 1;    // of a rank
    double reserved_bytes = 0;  // not ours: context, communicators, fragments

    double peak_flops = 1;                   // of the data sheet; only utilisation is counted in it
    double product_flops = 1;                // of products that are large in every dimension
    double product_half_width = 0;           // inner or outer width at half the rate
    double product_half_outputs = 0;         // a product takes the time of so many outputs more
    std::map<int, AttentionRate> attention;  // by head dimension; a smaller one is padded
    double memory_bandwidth = 1;             // bytes a second, reading and writing
    double launch_seconds = 0;               // from one operation to the next that depends on it
    double step_seconds = 0;                 // of a micro-batch: loading, loss, bookkeeping

    double element_bytes = 2;     // of activations and of what is exchanged
    double parameter_bytes = 2;   // of a parameter, replicated
    double gradient_bytes = 4;    // replicated
    double optimizer_bytes = 12;  // master copy and moments, sharded over the world

    Link node;     // between ranks of a node
    Link network;  // between nodes, for each rank

    double budget_bytes() const { return memory_bytes - reserved_bytes; }
};

// The ranks that train one copy of the model.
struct HardwareWorld {
    int ranks = 1;
    int ranks_per_node = 1;
    bool shards_optimizer = true;  // false: every rank holds all of optimizer_bytes
};

class HardwareModel final : public CostModel {
public:
    // PlanError where a size or a rate has no meaning, or no attention rate is given that a head of
    // the model fits.
    HardwareModel(ModelShape shape, Cluster cluster, const HardwareWorld& world);

    std::string_view name() const override { return name_; }
    int layers() const override { return shape_.layers; }
    double per_iteration_seconds() const override { return per_iteration_seconds_; }
    StepCost cost(const Load& load, const Strategy& strategy, int recompute_layers) const override;
    LinearCost linear(int degree, int recompute_layers) const override;
    // Of two dimensions: attention_pairs() and the text's keys and values, as pairs of equal time.
    double squared_tokens(const Sequence& sequence) const override;

    const ModelShape& shape() const { return shape_; }
    const Cluster& cluster() const { return cluster_; }
    Heads heads() const;  // for Problem::heads: none where the model shards frames, not heads

    // Parameters, gradients and optimizer states of a rank.
    double static_bytes() const { return static_bytes_; }
    // Bytes that a layer keeps for a token of a rank: without and with recomputation.
    double layer_token_bytes() const { return layer_token_bytes_; }
    double checkpoint_token_bytes() const { return checkpoint_token_bytes_; }
    // The parts of per_iteration_seconds().
    double reduction_seconds() const { return reduction_seconds_; }
    double optimizer_seconds() const { return optimizer_seconds_; }
    // Operations of training on a sequence, for utilisation: divide by seconds, ranks and
    // cluster().peak_flops.
    double training_flops(const Sequence& sequence) const {
        return plan::training_flops(shape_, sequence);
    }

private:
    // Seconds of one forward pass of all layers on one rank, and of one backward pass.
    struct Pass {
        double fixed = 0;
        double token = 0;        // shared by the ranks of a group
        double short_token = 0;  // of attention below its full rate: shared by the Ulysses ranks
        double squared_token = 0;
    };
    struct Line {
        double fixed = 0;
        double token = 0;
        double squared_token = 0;
        double exchange_fixed = 0;
        double exchange_token = 0;
    };
    struct Exchange {
        double fixed = 0;
        double token = 0;
    };
    Pass pass(bool is_backward) const;
    double product_seconds(double inner, double outputs, double rows) const;
    double exchange_seconds(const Strategy& strategy, double bytes) const;
    Exchange exchange(const Strategy& strategy, bool is_backward) const;
    Line line(const Strategy& strategy, int recompute_layers) const;
    double token_bytes(int degree, int recompute_layers) const;
    void compute_iteration(const HardwareWorld& world);

    ModelShape shape_;
    Cluster cluster_;
    int ranks_per_node_ = 1;
    std::string name_;
    AttentionRate attention_;  // of the model's head dimension
    Pass forward_;
    Pass backward_;
    Pass head_;  // of the output layer: forward and backward
    double text_pairs_ = 0;
    double static_bytes_ = 0;
    double layer_token_bytes_ = 0;
    double checkpoint_token_bytes_ = 0;
    double working_token_bytes_ = 0;
    double reduction_seconds_ = 0;
    double optimizer_seconds_ = 0;
    double per_iteration_seconds_ = 0;
};

}  // namespace dcp::plan
