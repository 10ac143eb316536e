// A plan as bytes, for the broadcast from rank 0: little-endian, versioned, a checksum at the end.
//
//   "DCPP" | version 1 | ranks | sequences | makespan, bound: 8 bytes each | steps, then each:
//     runs of neighbouring ranks: their number, then (gap since the last run, length - 1) of each
//     ulysses | ring | recompute layers | number of sequences, then signed differences
//     start, seconds, peak bytes: 8 bytes each
//   64-bit FNV-1a of everything before
//
// Integers are varints (7 bits a byte, low first, never longer than needed), so one plan has
// exactly one encoding: what parse_plan() accepts, serialize() gives back byte for byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/plan/plan.hpp"

namespace dcp::plan {

// The sizes a plan is read against. Both sides know them before a plan arrives.
struct PlanScope {
    int ranks = 0;
    std::int64_t sequences = 0;
};

std::vector<std::byte> serialize(const Plan& plan, const PlanScope& scope);

// Never trusts the bytes: PlanError for a wrong version, checksum, length or scope, and for any
// number out of the scope's range. What it returns is well-formed; validate() says whether it is a
// plan of the problem.
Plan parse_plan(std::span<const std::byte> bytes, const PlanScope& scope);

// What ranks compare before they run a plan: the checksum of its bytes.
std::uint64_t plan_hash(std::span<const std::byte> bytes);

}  // namespace dcp::plan
