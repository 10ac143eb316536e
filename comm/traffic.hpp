// What a communicator has sent, by kind of operation: tests compare it with the formulas of a
// strategy, reports print it beside the time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace dcp::comm {

enum class Operation : std::uint8_t {
    kAllToAll,
    kAllGather,
    kAllReduce,
    kReduceScatter,
    kBroadcast,
    kExchange,
    kBarrier,
};
inline constexpr int kNumOperations = 7;
std::string_view name(Operation operation);

class Traffic {
public:
    struct Entry {
        std::int64_t calls = 0;
        // To other ranks; what a rank keeps for itself is not sent. A broadcast counts once, at its
        // root, although a tree lets other ranks pass it on.
        std::int64_t sent_bytes = 0;
        // Host time inside the calls and their waits: peers that come late are in it.
        double seconds = 0;
    };

    Entry& operator[](Operation operation) { return entries_[static_cast<std::size_t>(operation)]; }
    const Entry& operator[](Operation operation) const {
        return entries_[static_cast<std::size_t>(operation)];
    }
    Traffic& operator+=(const Traffic& other);
    Entry total() const;

private:
    std::array<Entry, kNumOperations> entries_{};
};

}  // namespace dcp::comm
