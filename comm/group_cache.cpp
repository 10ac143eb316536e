#include "comm/group_cache.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/errors.hpp"

namespace dcp::comm {

namespace {

// One step of FNV-1a over a whole word.
std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
    constexpr std::uint64_t kPrime = 0x100000001b3;
    return (hash ^ word) * kPrime;
}

}  // namespace

std::size_t GroupCache::RanksHash::operator()(std::span<const int> ranks) const noexcept {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const int rank : ranks) {
        hash = mix(hash, static_cast<std::uint64_t>(rank));
    }
    return hash ^ (hash >> 32);
}

bool GroupCache::RanksEqual::operator()(std::span<const int> a,
                                        std::span<const int> b) const noexcept {
    return std::ranges::equal(a, b);
}

GroupCache::GroupCache(GroupFactory& factory,
                       Communicator& world,
                       Communicator& self,
                       int max_groups_per_rank,
                       Arena* arena)
    : factory_(factory),
      world_(world),
      max_groups_per_rank_(static_cast<std::size_t>(std::max(max_groups_per_rank, 0))),
      self_(self),
      groups_of_rank_(static_cast<std::size_t>(world.group_size())) {
    if (max_groups_per_rank < 1) {
        throw ConfigError(
            fmt::format("a rank must be allowed at least one group, not {}", max_groups_per_rank));
    }
    if (world.group_size() > 2) {  // two ranks form no group but the world
        reserved_bytes_ = max_groups_per_rank * factory.communicator_bytes(world.group_size() - 1);
    }
    if (arena != nullptr && reserved_bytes_ > 0) {
        arena->allocate("communicators (held by the library)", MemoryCategory::kCommunication,
                        DType::kUInt8, {reserved_bytes_});
    }
}

GroupCache::~GroupCache() {
    // Freeing may be collective: in one order on all ranks, whatever order the map has.
    std::vector<Group*> by_use;
    by_use.reserve(groups_.size());
    for (const auto& [ranks, group] : groups_) {
        by_use.push_back(group.get());
    }
    std::ranges::sort(by_use, {}, &Group::last_use);
    for (Group* group : by_use) {
        group->communicator.reset();
    }
}

Communicator* GroupCache::use(std::span<const int> world_ranks) {
    check_ranks(world_ranks);
    ++clock_;
    history_hash_ = mix(history_hash_, RanksHash{}(world_ranks));
    if (world_ranks.size() == 1) {
        return world_ranks[0] == world_.group_rank() ? &self_ : nullptr;
    }
    if (world_ranks.size() == groups_of_rank_.size()) {
        return &world_;
    }
    constexpr std::uint64_t kNoFloor = UINT64_MAX;
    return find_or_make(world_ranks, kNoFloor)->communicator.get();
}

void GroupCache::prepare(std::span<const std::vector<int>> groups) {
    const std::uint64_t floor = clock_ + 1;
    for (const std::vector<int>& world_ranks : groups) {
        check_ranks(world_ranks);
        ++clock_;
        history_hash_ = mix(history_hash_, RanksHash{}(world_ranks));
        if (world_ranks.size() > 1 && world_ranks.size() < groups_of_rank_.size()) {
            find_or_make(world_ranks, floor);
        }
    }
}

GroupCache::Group* GroupCache::find_or_make(std::span<const int> world_ranks, std::uint64_t floor) {
    if (const auto found = groups_.find(world_ranks); found != groups_.end()) {
        Group& group = *found->second;
        group.last_use = clock_;
        counters_.found += group.communicator ? 1 : 0;
        return &group;
    }
    if (!make_room(world_ranks, floor)) {
        return nullptr;
    }
    auto made = std::make_unique<Group>();
    made->world_ranks.assign(world_ranks.begin(), world_ranks.end());
    made->last_use = clock_;
    const std::uint64_t creation = num_made_anywhere_++;
    if (std::ranges::binary_search(world_ranks, world_.group_rank())) {
        made->communicator = factory_.make_group(world_ranks, creation);
        ++counters_.made;
    }
    Group* group = made.get();
    for (const int rank : world_ranks) {
        groups_of_rank_[static_cast<std::size_t>(rank)].push_back(group);
    }
    groups_.emplace(group->world_ranks, std::move(made));
    return group;
}

bool GroupCache::make_room(std::span<const int> world_ranks, std::uint64_t floor) {
    const auto is_full = [this](int rank) {
        return groups_of_rank_[static_cast<std::size_t>(rank)].size() >= max_groups_per_rank_;
    };
    for (const int rank : world_ranks) {
        if (is_full(rank) && least_recent(rank)->last_use >= floor) {
            return false;
        }
    }
    for (const int rank : world_ranks) {
        if (is_full(rank)) {  // no longer, where the group of an earlier rank held this one too
            evict(*least_recent(rank));
        }
    }
    return true;
}

GroupCache::Group* GroupCache::least_recent(int world_rank) const {
    const std::vector<Group*>& held = groups_of_rank_[static_cast<std::size_t>(world_rank)];
    return *std::ranges::min_element(held, {}, &Group::last_use);
}

void GroupCache::evict(Group& group) {
    for (const int rank : group.world_ranks) {
        std::erase(groups_of_rank_[static_cast<std::size_t>(rank)], &group);
    }
    if (group.communicator) {
        evicted_traffic_ += group.communicator->traffic();
        ++counters_.evicted;
    }
    groups_.erase(groups_.find(std::span<const int>(group.world_ranks)));
}

int GroupCache::num_live() const {
    return static_cast<int>(groups_of_rank_[static_cast<std::size_t>(world_.group_rank())].size());
}

Traffic GroupCache::traffic() const {
    Traffic sum = evicted_traffic_;
    sum += self_.traffic();
    for (const auto& [ranks, group] : groups_) {
        if (group->communicator) {
            sum += group->communicator->traffic();
        }
    }
    return sum;
}

void GroupCache::check_ranks(std::span<const int> world_ranks) const {
    const bool is_ascending =
        std::ranges::adjacent_find(world_ranks, std::ranges::greater_equal{}) == world_ranks.end();
    if (world_ranks.empty() || !is_ascending || world_ranks.front() < 0 ||
        world_ranks.back() >= world_.group_size()) {
        throw ShapeError(fmt::format("a group is a sorted list of ranks below {}, not [{}]",
                                     world_.group_size(), fmt::join(world_ranks, ", ")));
    }
}

}  // namespace dcp::comm
