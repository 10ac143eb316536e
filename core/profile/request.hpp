// What the profiler is asked to measure: one micro-batch on one kind of group.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/cost_model.hpp"
#include "core/plan/strategy.hpp"

namespace dcp::profile {

// `tokens` tokens in `sequences` sequences of equal length (to one token), on groups of
// strategy.degree() ranks.
struct Request {
    std::int64_t tokens = 0;
    std::int64_t sequences = 1;  // 1 to tokens
    plan::Strategy strategy;

    std::vector<std::int64_t> lengths() const;
    plan::Load load() const;
    bool operator==(const Request&) const = default;
};

// The request whose load is nearest to this one: as many tokens, and equal sequences whose squares
// come nearest.
Request request_for(const plan::Load& load, const plan::Strategy& strategy);

}  // namespace dcp::profile
