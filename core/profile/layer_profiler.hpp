// The two-layer profiler: runs two layers of the model on the real ranks, one to warm up and one to
// be measured, for micro-batches of any size on groups of any SP degree.
//
// All groups of a degree run at once, as in training, and where several requests have the same
// strategy and tokens they run at the same time on different groups and change places after every
// repeat. Ranks that are left over work meanwhile as if each were a group. From repeat to repeat
// other layers of the model take their turn, so that weights come from memory as they do in a whole
// pass.
//
// Bytes are not measured but known: as the arena will count them (Block::saved_bytes and its
// like), for the model as a whole.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "comm/group_cache.hpp"
#include "core/base/arena.hpp"
#include "core/base/queue.hpp"
#include "core/model/transformer.hpp"
#include "core/plan/profile.hpp"
#include "core/profile/layer_pass.hpp"
#include "core/profile/reference_work.hpp"
#include "core/profile/request.hpp"

namespace dcp::profile {

// How long to repeat. The defaults suit the start of a run.
struct Effort {
    double relative_error = 0.02;  // of forward and backward together: stable enough
    int least_samples = 3;         // of a request, over all groups, that count
    int most_samples = 10;
    double sample_seconds = 0.01;  // shorter passes are repeated within a sample
};

// One measured request.
struct Measurement {
    plan::ProfilePoint point;  // times where the reference takes its time; bytes are the model's
    double relative_error = 1;
    // Forward and backward of every world rank, as they were; 0 for ranks that were left over.
    std::vector<double> rank_seconds;
};

// Of a micro-batch beside its layers, on a rank that holds T tokens: fixed + token * T.
struct Ends {
    double fixed_seconds = 0;
    double token_seconds = 0;
};

class LayerProfiler {
public:
    // Everything must outlive it. ranks_per_node: so many neighbouring ranks share a node.
    LayerProfiler(model::Transformer& model,
                  Queue& queue,
                  Arena& arena,
                  comm::GroupCache& groups,
                  int ranks_per_node);
    ~LayerProfiler() = default;
    LayerProfiler(const LayerProfiler&) = delete;  // its reference runs its passes
    LayerProfiler(LayerProfiler&&) = delete;
    LayerProfiler& operator=(const LayerProfiler&) = delete;
    LayerProfiler& operator=(LayerProfiler&&) = delete;

    // All below is collective over the world, with the same arguments on all ranks, at a moment
    // when no gradients are kept: those of the model are overwritten. Weights, optimizer and what
    // the arena holds stay as they are. Every rank gets the same bits back, in the order of the
    // requests. A request fits the arena when a step of its tokens fits with all layers recomputed.
    // A strategy of a degree above the world is a ShapeError.
    std::vector<Measurement> measure(std::span<const Request> requests, const Effort& effort = {});

    // Embedding, final norm, output layer and loss, all forward and backward, of up to rank_tokens
    // tokens on every rank at once.
    Ends measure_ends(std::int64_t rank_tokens, const Effort& effort = {});

    // From here on seconds are those of a machine on which the reference takes what it says,
    // whatever else the machine does meanwhile: every sample is put beside the same small work,
    // which its rank did just before and after. Seconds of 0 are measured here; tokens of 0:
    // seconds stay as they are. Collective.
    void set_reference(const plan::ProfileReference& reference);
    const plan::ProfileReference& reference() const { return reference_.reference(); }
    // Seconds of the reference over what it says: of every world rank now, the median of a few; and
    // the median over all samples since it was set, 1 where there are none.
    std::vector<double> reference_slowness() { return reference_.slowness_of_ranks(); }
    double typical_slowness() const { return reference_.typical_slowness(); }

    // Ranks take turns on processors: all of them measure the same request at a time, and a sample
    // lasts for each until the last is done.
    void set_processors_shared();

    // False: recompute_seconds stay 0, which saves a sixth of the time.
    void set_recompute(bool is_measured) { measures_recompute_ = is_measured; }

private:
    struct Round;  // requests that are measured at the same time, and their samples

    Round start_round(std::span<const Request> requests);
    void run_block(Round& round, int block, bool is_sample);
    bool is_done(const Round& round, const Effort& effort) const;
    Measurement finish(const Round& round, std::size_t index) const;
    void add_bytes(plan::ProfilePoint& point) const;
    void touch_gradients();

    model::Transformer& model_;
    Queue& queue_;
    comm::GroupCache& groups_;
    int ranks_per_node_;
    LayerPass pass_;
    bool measures_recompute_ = true;
    bool shares_processors_ = false;
    ReferenceWork reference_;
    double slowness_ = 1;  // of this rank, when it was last looked at
    std::int64_t next_layer_ = 0;
    bool has_touched_gradients_ = false;
};

}  // namespace dcp::profile
