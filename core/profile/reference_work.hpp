// A small piece of work that is always the same, put beside what is measured: how fast the machine
// is meanwhile, whatever else it does.
#pragma once

#include <vector>

#include "comm/communicator.hpp"
#include "core/base/queue.hpp"
#include "core/plan/profile.hpp"
#include "core/profile/layer_pass.hpp"

namespace dcp::profile {

class ReferenceWork {
public:
    // Everything must outlive it.
    ReferenceWork(LayerPass& pass, Queue& queue, comm::Communicator& world)
        : pass_(pass), queue_(queue), world_(world) {}

    // Which work, and the seconds that it takes; 0: they are measured here. Without tokens there is
    // no such work, and every slowness is 1. Collective.
    void set(const plan::ProfileReference& reference);
    const plan::ProfileReference& reference() const { return reference_; }

    // From here on it runs long enough to tell how fast the machine is beside samples that take so
    // many seconds.
    void look_for(double seconds);

    // Its seconds over what it should take: of this rank now, after a pause or other work; and of
    // every world rank, the median of a few (collective).
    double slowness();
    std::vector<double> slowness_of_ranks();

    // The median over all samples since the reference was set, 1 where there are none.
    void remember(double slowness) { slownesses_.push_back(slowness); }
    double typical_slowness() const;

private:
    double look(double seconds);

    LayerPass& pass_;
    Queue& queue_;
    comm::Communicator& world_;
    plan::ProfileReference reference_;
    double look_seconds_ = 0;         // each time
    std::vector<double> slownesses_;  // of all ranks and samples
};

}  // namespace dcp::profile
