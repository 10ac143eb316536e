// A whole profile: ends, speeds of the ranks, and every strategy's curve, as far as time allows.
#pragma once

#include <functional>
#include <vector>

#include "core/plan/profile.hpp"
#include "core/profile/grid.hpp"
#include "core/profile/layer_profiler.hpp"

namespace dcp::profile {

struct GridOptions {
    GridLimits limits;
    // Measured before on these ranks: what they reach is not measured again, nor are the ends.
    std::vector<plan::ProfilePoint> known;
    // The profiler's: of the known points, or the one to begin with.
    plan::ProfileReference reference;
    Effort effort;
    double tolerance = 0.03;     // of interpolation
    double most_seconds = 60;    // of the coarse grid, as far as can be foreseen
    double refine_seconds = 60;  // nothing is refined later than this
    // Told now and then how many micro-batches are measured; may be empty.
    std::function<void(int measured, double seconds)> progress;
};

struct GridResult {
    Ends ends;
    plan::ProfileReference reference;        // what it took typically, as the points
    std::vector<double> speeds;              // empty where ranks do not differ clearly
    std::vector<plan::ProfilePoint> points;  // the known ones first
    int num_left_out = 0;  // requests of the coarse grid for which there was no time
    double seconds = 0;
};

// Collective, with the same options on all ranks; the same result on all.
GridResult measure_grid(LayerProfiler& profiler,
                        Queue& queue,
                        comm::Communicator& world,
                        const GridOptions& options);

// 1 for the typical rank, less for a slower one; from micro-batches that every rank ran alone.
// Empty unless a rank is slower or faster than the others by a tenth or more in nearly all of them.
std::vector<double> clear_speeds(const std::vector<Measurement>& measured);

}  // namespace dcp::profile
