// The prices of the slots bound: how much of a rank's time each slot asks for opening micro-batches
// and how much for work.
#pragma once

#include <vector>

#include "core/plan/price_table.hpp"

namespace dcp::plan {

// One number per slot, from 0 to 1: of what a rank with n micro-batches may earn, the part x it
// earns with shares (x / n each) and the part 1 - x with work ((1 - x) / (T - n f) a second).
struct Split {
    std::vector<double> share_parts;
};

// The splits that a window of slots allows: an end that stands for fewer (more) micro-batches may
// not ask less (more) for shares than the area bound does.
struct SplitLimits {
    std::vector<double> least, most;
};

SplitLimits split_limits(double makespan, double fixed_seconds, const std::vector<Slot>& slots);

// The split of the area bound: f / T for every share, 1 / T a second of work.
Split area_split(double makespan, double fixed_seconds, const std::vector<Slot>& slots);

// What the slots ask for under a split.
std::vector<SlotPrice> slot_prices(double makespan,
                                   double fixed_seconds,
                                   const std::vector<Slot>& slots,
                                   const Split& split);

// Sum of the prices of all sequences, each by its cheapest way.
class PriceSum {
public:
    PriceSum(const PriceTable& table,
             const std::vector<double>& counts,
             const std::vector<Slot>& slots,
             double makespan,
             double fixed_seconds);

    double total(const Split& split) const;
    // When to be content with a split.
    struct Aim {
        double enough = 0;         // total from which no more is wanted
        double least_gain = 0;     // of a step, in parts of the total
        bool starts_near = false;  // the start is from a makespan that is nearly this one
        bool is_rough = false;     // the last sharpening, which gains some 1e-4, is left out
    };
    // A split with a large total, by Newton steps on a smooth minimum that is sharpened step by
    // step.
    Split maximise(const Split& start, const SplitLimits& limits, const Aim& aim) const;

private:
    struct Line {  // the price of a way: at_zero + slope * x
        std::size_t slot;
        double at_zero;
        double slope;
    };
    struct Smooth {
        double value = 0;
        std::vector<double> gradient;
        std::vector<double> curvature;  // of minus the value; dense, row by row
    };
    double smooth_value(const std::vector<double>& x, double sharpness) const;
    Smooth smooth(const std::vector<double>& x, double sharpness) const;
    std::vector<double> newton_step(const Smooth& at,
                                    const std::vector<double>& x,
                                    const SplitLimits& limits) const;

    std::vector<Line> lines_;
    const std::vector<std::size_t>& begins_;
    const std::vector<double>& counts_;
    std::size_t num_slots_;
    std::vector<double> scale_;  // of every length: its price by area, what "smooth" is relative to
};

}  // namespace dcp::plan
