#include "core/plan/price_search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dcp::plan {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

double clamp_part(double value) {
    return std::clamp(value, 0.0, 1.0);
}

// Solves the symmetric positive definite system in place (Gauss without pivots); b becomes the
// solution. Sizes are a dozen.
void solve(std::vector<double>& matrix, std::vector<double>& b) {
    const std::size_t size = b.size();
    for (std::size_t pivot = 0; pivot < size; ++pivot) {
        for (std::size_t row = pivot + 1; row < size; ++row) {
            const double factor = matrix[row * size + pivot] / matrix[pivot * size + pivot];
            for (std::size_t column = pivot; column < size; ++column) {
                matrix[row * size + column] -= factor * matrix[pivot * size + column];
            }
            b[row] -= factor * b[pivot];
        }
    }
    for (std::size_t row = size; row-- > 0;) {
        for (std::size_t column = row + 1; column < size; ++column) {
            b[row] -= matrix[row * size + column] * b[column];
        }
        b[row] /= matrix[row * size + row];
    }
}

// exp(x) for x <= 0; nothing where it would be lost beside 1.
double weight_of(double x) {
    return x < -40 ? 0 : std::exp(x);
}

// Of a rank with the slot's micro-batches. Less than what a second may cost is allowed too: no
// division by nothing.
double work_seconds(double makespan, double fixed_seconds, const Slot& slot) {
    return std::max(makespan - slot.count * fixed_seconds, 1e-12 * makespan);
}

}  // namespace

SplitLimits split_limits(double makespan, double fixed_seconds, const std::vector<Slot>& slots) {
    SplitLimits limits;
    for (const Slot& slot : slots) {
        const double area = clamp_part(slot.count * fixed_seconds / makespan);
        limits.least.push_back(slot.stands_for_fewer ? area : 0);
        limits.most.push_back(slot.stands_for_more ? area : 1);
    }
    return limits;
}

Split area_split(double makespan, double fixed_seconds, const std::vector<Slot>& slots) {
    Split split;
    for (const Slot& slot : slots) {
        split.share_parts.push_back(clamp_part(slot.count * fixed_seconds / makespan));
    }
    return split;
}

std::vector<SlotPrice> slot_prices(double makespan,
                                   double fixed_seconds,
                                   const std::vector<Slot>& slots,
                                   const Split& split) {
    std::vector<SlotPrice> prices;
    for (std::size_t slot = 0; slot < slots.size(); ++slot) {
        const double part = split.share_parts[slot];
        prices.push_back({.share = part / slots[slot].count,
                          .work = (1 - part) / work_seconds(makespan, fixed_seconds, slots[slot])});
    }
    return prices;
}

PriceSum::PriceSum(const PriceTable& table,
                   const std::vector<double>& counts,
                   const std::vector<Slot>& slots,
                   double makespan,
                   double fixed_seconds)
    : begins_(table.begins), counts_(counts), num_slots_(slots.size()) {
    lines_.reserve(table.ways.size());
    for (const Way& way : table.ways) {
        const auto slot = static_cast<std::size_t>(way.slot);
        const double work = way.work / work_seconds(makespan, fixed_seconds, slots[slot]);
        lines_.push_back(
            {.slot = slot, .at_zero = work, .slope = way.share / slots[slot].count - work});
    }
    const Split area = area_split(makespan, fixed_seconds, slots);
    for (std::size_t i = 0; i + 1 < begins_.size(); ++i) {
        double price = kNever;
        for (std::size_t j = begins_[i]; j < begins_[i + 1]; ++j) {
            price = std::min(
                price, lines_[j].at_zero + lines_[j].slope * area.share_parts[lines_[j].slot]);
        }
        scale_.push_back(std::max(price, std::numeric_limits<double>::min()));
    }
}

double PriceSum::total(const Split& split) const {
    double sum = 0;
    for (std::size_t i = 0; i + 1 < begins_.size(); ++i) {
        double price = kNever;
        for (std::size_t j = begins_[i]; j < begins_[i + 1]; ++j) {
            const Line& line = lines_[j];
            price = std::min(price, line.at_zero + line.slope * split.share_parts[line.slot]);
        }
        sum += counts_[i] * price;
    }
    return sum;
}

double PriceSum::smooth_value(const std::vector<double>& x, double sharpness) const {
    double value = 0;
    for (std::size_t i = 0; i + 1 < begins_.size(); ++i) {
        const double width = sharpness * scale_[i];
        double least = kNever;
        for (std::size_t j = begins_[i]; j < begins_[i + 1]; ++j) {
            least = std::min(least, lines_[j].at_zero + lines_[j].slope * x[lines_[j].slot]);
        }
        double sum = 0;
        for (std::size_t j = begins_[i]; j < begins_[i + 1]; ++j) {
            const double price = lines_[j].at_zero + lines_[j].slope * x[lines_[j].slot];
            sum += weight_of((least - price) / width);
        }
        value += counts_[i] * (least - width * std::log(sum));
    }
    return value;
}

PriceSum::Smooth PriceSum::smooth(const std::vector<double>& x, double sharpness) const {
    Smooth result;
    result.gradient.assign(num_slots_, 0.0);
    result.curvature.assign(num_slots_ * num_slots_, 0.0);
    std::vector<double> weights;
    std::vector<double> mean(num_slots_);
    for (std::size_t i = 0; i + 1 < begins_.size(); ++i) {
        const double width = sharpness * scale_[i];
        double least = kNever;
        weights.clear();
        for (std::size_t j = begins_[i]; j < begins_[i + 1]; ++j) {
            weights.push_back(lines_[j].at_zero + lines_[j].slope * x[lines_[j].slot]);
            least = std::min(least, weights.back());
        }
        double sum = 0;
        for (double& weight : weights) {
            weight = weight_of((least - weight) / width);
            sum += weight;
        }
        result.value += counts_[i] * (least - width * std::log(sum));
        std::fill(mean.begin(), mean.end(), 0.0);
        for (std::size_t j = begins_[i]; j < begins_[i + 1]; ++j) {
            const Line& line = lines_[j];
            const double weight = weights[j - begins_[i]] / sum;
            mean[line.slot] += weight * line.slope;
            result.curvature[line.slot * (num_slots_ + 1)] +=
                counts_[i] / width * weight * line.slope * line.slope;
        }
        for (std::size_t a = 0; a < num_slots_; ++a) {
            const double part = counts_[i] / width * mean[a];
            result.gradient[a] += counts_[i] * mean[a];
            for (std::size_t b = 0; part != 0 && b < num_slots_; ++b) {
                result.curvature[a * num_slots_ + b] -= part * mean[b];
            }
        }
    }
    return result;
}

// Towards the top of the parabola, in the slots that are not held by a limit.
std::vector<double> PriceSum::newton_step(const Smooth& at,
                                          const std::vector<double>& x,
                                          const SplitLimits& limits) const {
    std::vector<std::size_t> free;
    for (std::size_t slot = 0; slot < num_slots_; ++slot) {
        const bool is_held = (x[slot] <= limits.least[slot] && at.gradient[slot] <= 0) ||
                             (x[slot] >= limits.most[slot] && at.gradient[slot] >= 0);
        if (!is_held) {
            free.push_back(slot);
        }
    }
    std::vector<double> matrix(free.size() * free.size());
    std::vector<double> right;
    double trace = 0;
    for (const std::size_t slot : free) {
        trace += at.curvature[slot * (num_slots_ + 1)];
    }
    const double ridge = 1e-9 * trace + 1e-9 * (std::abs(at.value) + 1);
    for (std::size_t a = 0; a < free.size(); ++a) {
        right.push_back(at.gradient[free[a]]);
        for (std::size_t b = 0; b < free.size(); ++b) {
            matrix[a * free.size() + b] =
                at.curvature[free[a] * num_slots_ + free[b]] + (a == b ? ridge : 0);
        }
    }
    solve(matrix, right);
    std::vector<double> step(num_slots_, 0.0);
    for (std::size_t a = 0; a < free.size(); ++a) {
        step[free[a]] = right[a];
    }
    return step;
}

Split PriceSum::maximise(const Split& start, const SplitLimits& limits, const Aim& aim) const {
    constexpr int kSteps = 12;
    constexpr int kHalvings = 10;
    std::vector<double> x = start.share_parts;
    for (std::size_t slot = 0; slot < num_slots_; ++slot) {
        x[slot] = std::clamp(x[slot], limits.least[slot], limits.most[slot]);
    }
    Split best{x};
    double best_total = total(best);
    for (const double sharpness : {0.1, 0.02, 0.004}) {
        if ((aim.starts_near && sharpness == 0.1) || (aim.is_rough && sharpness == 0.004)) {
            continue;
        }
        for (int step = 0; step < kSteps && best_total < aim.enough; ++step) {
            const Smooth here = smooth(x, sharpness);
            const std::vector<double> direction = newton_step(here, x, limits);
            std::vector<double> next(num_slots_);
            double gain = 0;
            double length = 1;
            for (int halving = 0; halving < kHalvings && gain <= 0; ++halving, length /= 2) {
                for (std::size_t slot = 0; slot < num_slots_; ++slot) {
                    next[slot] = std::clamp(x[slot] + length * direction[slot], limits.least[slot],
                                            limits.most[slot]);
                }
                gain = smooth_value(next, sharpness) - here.value;
            }
            if (gain <= aim.least_gain * here.value) {
                break;
            }
            x = next;
        }
        if (const double here = total({x}); here > best_total) {
            best_total = here;
            best = {x};
        }
    }
    return best;
}

}  // namespace dcp::plan
