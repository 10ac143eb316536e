// Device memory for an Arena: allocated once, kept to the end, so that no iteration waits for an
// allocation and nothing fragments. Every tensor of the arena is used through one stream, which
// orders the use of memory that a scope has given back.
#pragma once

#include <cstdint>
#include <memory>

#include "core/base/arena.hpp"

namespace dcp::cuda {

// MemoryBudgetError when the device has less.
std::unique_ptr<ArenaMemory> device_arena_memory(std::int64_t budget_bytes);

// What `memory.budget: auto` means on the current device: nine tenths of what it has left now.
std::int64_t default_device_budget_bytes();

}  // namespace dcp::cuda
