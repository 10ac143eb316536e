#include "core/base/cuda/arena_memory.hpp"

#include <algorithm>

#include "core/base/cuda/check.hpp"
#include "core/base/cuda/memory.hpp"

namespace dcp::cuda {

namespace {

class DeviceArenaMemory final : public ArenaMemory {
public:
    explicit DeviceArenaMemory(std::int64_t budget_bytes)
        : buffer_("memory.budget",
                  static_cast<std::size_t>(std::max(budget_bytes, Arena::kAlignmentBytes))) {}

    std::byte* data() const override { return buffer_.data(); }
    bool is_host_memory() const override { return false; }

private:
    DeviceBuffer buffer_;
};

}  // namespace

std::unique_ptr<ArenaMemory> device_arena_memory(std::int64_t budget_bytes) {
    return std::make_unique<DeviceArenaMemory>(budget_bytes);
}

std::int64_t default_device_budget_bytes() {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
    return static_cast<std::int64_t>(free_bytes / 10 * 9);
}

}  // namespace dcp::cuda
