// The one allocator of a device: a stack of named tensors inside one reserved range of addresses.
//
// Everything that lives as long as the run is allocated first; an iteration opens a Scope, pushes
// what it needs and pops all of it when the scope ends. Lengths differ every iteration, so a
// general allocator would fragment; a stack cannot: what is reserved is the highest mark ever
// reached, and it stays flat once the largest iteration has been seen.
//
// The memory may be that of a GPU (core/base/cuda/arena_memory.hpp); the accounting is the same. A
// scope's memory is used again at once, so all work on one arena goes through one queue.
//
// A group of ranks that share a step cannot leave it in the middle: its members wait for each other
// in exchanges. So a rank whose memory turns out to be too small there may pass the budget for as
// long as an Overdraft lives, by up to a quarter, and tells the others afterwards.
//
// Bytes are exact, by category, now and at the peak. Allocations are 64-byte aligned (one cache
// line, one AVX-512 register); the padding counts. Contents of a new allocation are undefined
// (debug builds and the sanitizer preset fill them with NaN bytes).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/tensor.hpp"

namespace dcp {

enum class MemoryCategory : std::uint8_t {
    kParameters,
    kGradients,
    kOptimizer,
    kActivations,
    kWorkspace,
    kCommunication,
};
inline constexpr int kNumMemoryCategories = 6;
std::string_view name(MemoryCategory category);

// One range of addresses that an arena cuts up.
class ArenaMemory {
public:
    ArenaMemory() = default;
    ArenaMemory(const ArenaMemory&) = delete;
    ArenaMemory& operator=(const ArenaMemory&) = delete;
    virtual ~ArenaMemory() = default;

    virtual std::byte* data() const = 0;
    virtual bool is_host_memory() const = 0;
};

class Arena {
public:
    static constexpr std::int64_t kAlignmentBytes = 64;

    // Reserves addresses for budget_bytes of host memory; pages become real when first written.
    // IoError when the system refuses.
    explicit Arena(std::int64_t budget_bytes);
    // `memory` has at least budget_bytes, and no more is ever used of it.
    Arena(std::int64_t budget_bytes, std::unique_ptr<ArenaMemory> memory);
    ~Arena() = default;
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;
    Arena(Arena&&) = delete;
    Arena& operator=(Arena&&) = delete;

    // Pushes a tensor. MemoryBudgetError names the tensor, its shape and category, what is already
    // held, and what to change; nothing is allocated then. `tensor_name` must outlive the
    // allocation only in the error case: it is not kept.
    Tensor allocate(std::string_view tensor_name,
                    MemoryCategory category,
                    DType dtype,
                    Shape shape);

    // Frees everything allocated after its construction. Scopes nest strictly.
    class Scope {
    public:
        explicit Scope(Arena& arena);
        ~Scope();
        Scope(const Scope&) = delete;
        Scope& operator=(const Scope&) = delete;
        Scope(Scope&&) = delete;
        Scope& operator=(Scope&&) = delete;

    private:
        Arena& arena_;
        std::int64_t used_bytes_;
        std::array<std::int64_t, kNumMemoryCategories> by_category_;
    };

    // While one lives, the budget may be passed.
    class Overdraft {
    public:
        explicit Overdraft(Arena& arena) : arena_(arena) { ++arena_.overdrafts_; }
        ~Overdraft() { --arena_.overdrafts_; }
        Overdraft(const Overdraft&) = delete;
        Overdraft& operator=(const Overdraft&) = delete;
        Overdraft(Overdraft&&) = delete;
        Overdraft& operator=(Overdraft&&) = delete;

    private:
        Arena& arena_;
    };

    std::int64_t budget_bytes() const { return budget_bytes_; }
    std::int64_t current_bytes() const { return used_bytes_; }
    std::int64_t current_bytes(MemoryCategory category) const;
    std::int64_t peak_bytes() const { return peak_bytes_; }
    std::int64_t peak_bytes(
        MemoryCategory category) const;  // each category's own highest mark; they need not coincide
    std::int64_t reserved_bytes() const {
        return reserved_bytes_;
    }                   // highest mark ever; reset_peak() does not lower it
    void reset_peak();  // peaks start again from what is held now
    // A second, shorter mark: the highest point since start_mark().
    void start_mark() {
        mark_bytes_ = used_bytes_;
        missing_bytes_ = 0;
    }
    std::int64_t mark_bytes() const { return mark_bytes_; }
    // Most bytes that were asked for beyond the budget since then, granted or refused.
    std::int64_t missing_bytes() const { return missing_bytes_; }

    // Bytes that one allocation of this size takes from the budget.
    static std::int64_t padded_bytes(DType dtype, const Shape& shape);

private:
    std::unique_ptr<ArenaMemory> memory_;
    std::int64_t budget_bytes_;
    std::int64_t used_bytes_ = 0;
    std::int64_t peak_bytes_ = 0;
    std::int64_t mark_bytes_ = 0;
    std::int64_t missing_bytes_ = 0;
    std::int64_t overdraft_bytes_ = 0;  // there are so many beyond the budget
    int overdrafts_ = 0;
    std::int64_t reserved_bytes_ = 0;
    std::array<std::int64_t, kNumMemoryCategories> by_category_{};
    std::array<std::int64_t, kNumMemoryCategories> peak_by_category_{};
};

// What `memory.budget: auto` means on this host: nine tenths of the memory that is available now
// (MemAvailable, or less where the control group of the process allows less).
std::int64_t default_host_budget_bytes();

}  // namespace dcp
