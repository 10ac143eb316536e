#include "core/base/arena.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/errors.hpp"
#include "core/base/units.hpp"

namespace dcp {

std::string_view name(MemoryCategory category) {
    switch (category) {
        case MemoryCategory::kParameters:
            return "parameters";
        case MemoryCategory::kGradients:
            return "gradients";
        case MemoryCategory::kOptimizer:
            return "optimizer";
        case MemoryCategory::kActivations:
            return "activations";
        case MemoryCategory::kWorkspace:
            return "workspace";
        case MemoryCategory::kCommunication:
            return "communication";
    }
    return "?";
}

namespace {

// Addresses alone: pages become real when they are written.
constexpr std::int64_t kBudgetOverOverdraft = 4;

class HostMemory final : public ArenaMemory {
public:
    HostMemory(std::int64_t budget_bytes, std::int64_t overdraft_bytes)
        : num_bytes_(static_cast<std::size_t>(
              std::max(budget_bytes + overdraft_bytes, Arena::kAlignmentBytes))) {
        void* range = mmap(nullptr, num_bytes_, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (range == MAP_FAILED) {
            throw IoError(fmt::format(
                "the system refused to reserve {} of addresses for memory.budget ({}): set "
                "a smaller memory.budget",
                format_bytes(budget_bytes), std::generic_category().message(errno)));
        }
        // Large pages where the system offers them: products walk whole matrices, and 4 KiB pages
        // cost them TLB misses.
        madvise(range, num_bytes_, MADV_HUGEPAGE);
        data_ = static_cast<std::byte*>(range);
    }
    HostMemory(const HostMemory&) = delete;
    HostMemory& operator=(const HostMemory&) = delete;
    ~HostMemory() override { munmap(data_, num_bytes_); }

    std::byte* data() const override { return data_; }
    bool is_host_memory() const override { return true; }

private:
    std::byte* data_ = nullptr;
    std::size_t num_bytes_;
};

}  // namespace

Arena::Arena(std::int64_t budget_bytes)
    : Arena(budget_bytes,
            std::make_unique<HostMemory>(budget_bytes, budget_bytes / kBudgetOverOverdraft)) {
    overdraft_bytes_ = budget_bytes / kBudgetOverOverdraft;
}

Arena::Arena(std::int64_t budget_bytes, std::unique_ptr<ArenaMemory> memory)
    : memory_(std::move(memory)), budget_bytes_(budget_bytes) {}

std::int64_t Arena::padded_bytes(DType dtype, const Shape& shape) {
    // Shapes come from configurations: a product beyond 64 bits is more than any budget, not
    // little.
    constexpr std::int64_t kLargest =
        std::numeric_limits<std::int64_t>::max() / kAlignmentBytes * kAlignmentBytes;
    auto bytes = static_cast<std::int64_t>(size_bytes(dtype));
    bool too_large = false;
    for (int dim = 0; dim < shape.num_dims(); ++dim) {
        if (shape[dim] == 0) {
            return 0;
        }
        too_large = too_large || bytes > kLargest / shape[dim];
        bytes = too_large ? bytes : bytes * shape[dim];
    }
    return too_large ? kLargest : (bytes + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
}

Tensor Arena::allocate(std::string_view tensor_name,
                       MemoryCategory category,
                       DType dtype,
                       Shape shape) {
    const std::int64_t bytes = padded_bytes(dtype, shape);
    const std::int64_t missing = bytes - (budget_bytes_ - used_bytes_);
    missing_bytes_ = std::max(missing_bytes_, missing);
    if (missing > (overdrafts_ > 0 ? overdraft_bytes_ : 0)) {
        std::string held;
        for (int index = 0; index < kNumMemoryCategories; ++index) {
            const std::int64_t category_bytes = by_category_[static_cast<std::size_t>(index)];
            if (category_bytes > 0) {
                held += fmt::format("{}{} {}", held.empty() ? "" : ", ",
                                    name(static_cast<MemoryCategory>(index)),
                                    format_bytes(category_bytes));
            }
        }
        throw MemoryBudgetError(fmt::format(
            "out of memory budget: tensor '{}' {} {} ({}) needs {}, but memory.budget is {} and {} "
            "is held ({}); raise memory.budget, "
            "or lower batch.micro_batch_tokens or data.max_tokens, or set model.recompute_layers",
            tensor_name, shape.to_string(), name(dtype), name(category), format_bytes(bytes),
            format_bytes(budget_bytes_), format_bytes(used_bytes_),
            held.empty() ? "nothing" : held));
    }
    std::byte* data = memory_->data() + used_bytes_;
#ifndef NDEBUG
    // NaN in both floating-point types: reading before writing shows.
    if (memory_->is_host_memory()) {
        std::memset(data, 0xff, static_cast<std::size_t>(bytes));
    }
#endif
    const auto index = static_cast<std::size_t>(category);
    used_bytes_ += bytes;
    by_category_[index] += bytes;
    peak_bytes_ = std::max(peak_bytes_, used_bytes_);
    mark_bytes_ = std::max(mark_bytes_, used_bytes_);
    reserved_bytes_ = std::max(reserved_bytes_, used_bytes_);
    peak_by_category_[index] = std::max(peak_by_category_[index], by_category_[index]);
    return {data, dtype, shape};
}

std::int64_t Arena::current_bytes(MemoryCategory category) const {
    return by_category_[static_cast<std::size_t>(category)];
}

std::int64_t Arena::peak_bytes(MemoryCategory category) const {
    return peak_by_category_[static_cast<std::size_t>(category)];
}

void Arena::reset_peak() {
    peak_bytes_ = used_bytes_;
    peak_by_category_ = by_category_;
}

Arena::Scope::Scope(Arena& arena)
    : arena_(arena), used_bytes_(arena.used_bytes_), by_category_(arena.by_category_) {}

Arena::Scope::~Scope() {
    arena_.used_bytes_ = used_bytes_;
    arena_.by_category_ = by_category_;
}

namespace {

// The first number of the first line that starts with `key` (all lines when it is empty); -1 when
// there is none.
std::int64_t read_number(const char* path, std::string_view key) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with(key)) {
            const auto digits = line.find_first_of("0123456789");
            return digits == std::string::npos ? -1 : std::stoll(line.substr(digits));
        }
    }
    return -1;
}

}  // namespace

std::int64_t default_host_budget_bytes() {
    const std::int64_t available_kib = read_number("/proc/meminfo", "MemAvailable:");
    std::int64_t bytes = available_kib > 0 ? available_kib * 1024
                                           : static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) *
                                                 sysconf(_SC_PAGESIZE);
    const std::int64_t limit =
        read_number("/sys/fs/cgroup/memory.max", "");  // "max" has no digits: -1
    const std::int64_t used = read_number("/sys/fs/cgroup/memory.current", "");
    if (limit > 0) {
        bytes = std::min(bytes, limit - std::max<std::int64_t>(used, 0));
    }
    return std::max<std::int64_t>(bytes / 10 * 9, 0);
}

}  // namespace dcp
