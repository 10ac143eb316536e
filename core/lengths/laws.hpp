// The laws behind parse_distribution().
#pragma once

#include <span>
#include <vector>

#include "core/lengths/distribution.hpp"

namespace dcp::lengths {

struct Limits {
    std::int64_t min = 1;
    std::int64_t max = std::int64_t{1} << 40;

    std::int64_t clip(std::int64_t tokens) const {
        return tokens < min ? min : (tokens > max ? max : tokens);
    }
};

// One of a few lengths, with probability proportional to its weight.
class Classes final : public Distribution {
public:
    struct Class {
        Length length;
        double weight = 0;
    };
    // At least one class; weights finite and above 0.
    explicit Classes(const std::vector<Class>& classes);

    bool is_video() const override { return lengths_.front().frames > 0; }
    Length longest() const override;
    Length draw(Words& words, std::int64_t position) const override;

private:
    std::vector<Length> lengths_;
    std::vector<std::uint64_t> ends_;  // of the random words that mean a length, inclusive
};

// A point of a quantile table: a share of `below` / 2^32 of the sequences is at most `tokens` long.
struct Knot {
    std::uint32_t below;
    std::int32_t tokens;
};

// Between two knots every length is as likely as the others.
class QuantileTable final : public Distribution {
public:
    QuantileTable(std::span<const Knot> knots, Limits limits) : knots_(knots), limits_(limits) {}

    bool is_video() const override { return false; }
    Length longest() const override { return {.tokens = limits_.clip(knots_.back().tokens)}; }
    Length draw(Words& words, std::int64_t position) const override;

private:
    std::span<const Knot> knots_;
    Limits limits_;
};

// Density proportional to tokens^-alpha between the limits: every octave holds 2^(2 - alpha) times
// the tokens of the one below it.
class PowerLaw final : public Distribution {
public:
    PowerLaw(double alpha, Limits limits) : alpha_(alpha), limits_(limits) {}

    bool is_video() const override { return false; }
    Length longest() const override { return {.tokens = limits_.max}; }
    Length draw(Words& words, std::int64_t position) const override;

private:
    double alpha_;
    Limits limits_;
};

// exp of a normal variable, rounded down, then clipped.
class LogNormal final : public Distribution {
public:
    // `mean` is that of the whole law, before clipping.
    LogNormal(double mean, double sigma, Limits limits);

    bool is_video() const override { return false; }
    Length longest() const override { return {.tokens = limits_.max}; }
    Length draw(Words& words, std::int64_t position) const override;

private:
    double log_median_;
    double sigma_;
    Limits limits_;
};

class Mixture final : public Distribution {
public:
    struct Part {
        DistributionPtr distribution;
        double weight = 0;
    };
    explicit Mixture(std::vector<Part> parts) : parts_(std::move(parts)) {}

    bool is_video() const override { return parts_.front().distribution->is_video(); }
    Length longest() const override;
    Length draw(Words& words, std::int64_t position) const override;

private:
    std::vector<Part> parts_;
};

// The share of `to` grows from 0 to 1 during the first `sequences`.
class Drift final : public Distribution {
public:
    Drift(DistributionPtr from, DistributionPtr to, std::int64_t sequences)
        : from_(std::move(from)), to_(std::move(to)), sequences_(sequences) {}

    bool is_video() const override { return from_->is_video(); }
    Length longest() const override;
    Length draw(Words& words, std::int64_t position) const override;

private:
    DistributionPtr from_;
    DistributionPtr to_;
    std::int64_t sequences_;
};

}  // namespace dcp::lengths
