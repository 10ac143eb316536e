// Communicators of the groups that plans name, found again by their list of ranks and bounded in
// number.
//
// A rank sees only the groups that it is a member of, yet all members must free a group at the same
// point. So nobody talks about it: every rank of the world calls use() for every group of the plan,
// in the plan's order, member or not, and keeps the same books for all of them; what is evicted
// follows from the books alone. Only members make or free anything, and only members wait.
//
// The bound is per rank: none ever holds more than max_groups_per_rank communicators. When a group
// is made and one of its members is full, that member's least recently used group goes first, on
// all members of that one. Groups of one rank and the world itself are always there and do not
// count.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "comm/communicator.hpp"
#include "core/base/arena.hpp"

namespace dcp::comm {

// Makes the communicator of a sub-group of the world: MPI, NCCL, or a test's own.
class GroupFactory {
public:
    GroupFactory() = default;
    virtual ~GroupFactory() = default;
    GroupFactory(const GroupFactory&) = delete;
    GroupFactory& operator=(const GroupFactory&) = delete;
    GroupFactory(GroupFactory&&) = delete;
    GroupFactory& operator=(GroupFactory&&) = delete;

    // Called on the members alone, and may wait for them alone. `creation` is the same number on
    // all members and differs between the groups that a rank makes one after the other.
    virtual std::unique_ptr<Communicator> make_group(std::span<const int> world_ranks,
                                                     std::uint64_t creation) = 0;
    // What the library holds for one such communicator, outside of any arena.
    virtual std::int64_t communicator_bytes(int group_size) const = 0;
};

class GroupCache {
public:
    struct Counters {           // of the groups that this rank is a member of
        std::int64_t made = 0;  // beyond one rank and short of the world
        std::int64_t found = 0;
        std::int64_t evicted = 0;
    };

    // `world` holds every rank, `self` this one alone (a LocalCommunicator); both outlive the
    // cache, as do the factory and the arena. The arena (may be null) is charged at once with the
    // most that the communicators can come to, so that a plan which fits at the start fits for
    // ever.
    GroupCache(GroupFactory& factory,
               Communicator& world,
               Communicator& self,
               int max_groups_per_rank,
               Arena* arena);
    ~GroupCache();
    GroupCache(const GroupCache&) = delete;
    GroupCache& operator=(const GroupCache&) = delete;
    GroupCache(GroupCache&&) = delete;
    GroupCache& operator=(GroupCache&&) = delete;

    // Sorted world ranks; ShapeError otherwise. Null on a rank that is not in the group. The
    // communicator lives until a later use() or prepare() evicts it, so nothing may be pending on
    // it then. May wait for the other members where the group has to be made.
    Communicator* use(std::span<const int> world_ranks);

    // Makes the groups of a plan before its first step, so that none is made in the middle. A group
    // that could only be held by evicting another one of the same plan is passed over: use() makes
    // it when its turn comes.
    void prepare(std::span<const std::vector<int>> groups);

    Communicator& world() { return world_; }
    const Counters& counters() const { return counters_; }
    int num_live() const;  // communicators that this rank holds now
    std::int64_t reserved_bytes() const { return reserved_bytes_; }
    Traffic traffic() const;  // of all groups of this rank, evicted ones too, without the world
    // Of all calls so far: equal on all ranks as long as the rule above is kept.
    std::uint64_t history_hash() const { return history_hash_; }

private:
    struct Group {
        std::vector<int> world_ranks;
        std::unique_ptr<Communicator> communicator;  // null where this rank is not a member
        std::uint64_t last_use = 0;
    };
    struct RanksHash {
        std::size_t operator()(std::span<const int> ranks) const noexcept;
    };
    struct RanksEqual {
        bool operator()(std::span<const int> a, std::span<const int> b) const noexcept;
    };

    // Finds or makes; null without a trace when that would evict a group used at or after `floor`.
    Group* find_or_make(std::span<const int> world_ranks, std::uint64_t floor);
    bool make_room(std::span<const int> world_ranks, std::uint64_t floor);
    Group* least_recent(int world_rank) const;
    void evict(Group& group);
    void check_ranks(std::span<const int> world_ranks) const;

    GroupFactory& factory_;
    Communicator& world_;
    std::size_t max_groups_per_rank_;
    Communicator& self_;
    // Keys are views of the vectors inside the groups, which do not move.
    std::unordered_map<std::span<const int>, std::unique_ptr<Group>, RanksHash, RanksEqual> groups_;
    std::vector<std::vector<Group*>> groups_of_rank_;  // by world rank
    std::uint64_t clock_ = 0;                          // number of use() calls, on all ranks alike
    std::uint64_t num_made_anywhere_ = 0;
    std::uint64_t history_hash_ = 0;
    std::int64_t reserved_bytes_ = 0;
    Counters counters_;
    Traffic evicted_traffic_;
};

}  // namespace dcp::comm
