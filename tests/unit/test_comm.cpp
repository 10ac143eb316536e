// The parts of communication that need no second process: arithmetic of counts, ordered sums, one
// rank, the books of the group cache (all ranks of an imagined world, in one process), topology,
// launcher checks.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <set>

#include <catch2/catch.hpp>
#include <stdlib.h>

#include "comm/control.hpp"
#include "comm/counts.hpp"
#include "comm/group_cache.hpp"
#include "comm/launch.hpp"
#include "comm/local/local_communicator.hpp"
#include "comm/message_library.hpp"
#include "comm/ordered_reduce.hpp"
#include "comm/topology.hpp"
#include "core/base/errors.hpp"

using namespace dcp;
using namespace dcp::comm;

namespace {

using Counts = std::vector<std::int64_t>;

// Takes part in the books alone: nothing is ever sent through it.
class SilentCommunicator final : public Communicator {
public:
    SilentCommunicator(std::vector<int> ranks, int group_rank)
        : Communicator(std::move(ranks), group_rank) {}
    void all_to_all(Queue&,
                    ConstTensor,
                    std::span<const std::int64_t>,
                    Tensor,
                    std::span<const std::int64_t>) override {}
    Pending start_all_to_all(Queue&,
                             ConstTensor,
                             std::span<const std::int64_t>,
                             Tensor,
                             std::span<const std::int64_t>) override {
        return {};
    }
    void all_gather(Queue&, ConstTensor, Tensor, std::span<const std::int64_t>) override {}
    Pending start_all_gather(Queue&, ConstTensor, Tensor, std::span<const std::int64_t>) override {
        return {};
    }
    void reduce_scatter(
        Queue&, ConstTensor, Tensor, std::span<const std::int64_t>, Tensor) override {}
    std::int64_t reduce_scatter_workspace_bytes(Number,
                                                std::span<const std::int64_t>) const override {
        return 0;
    }
    void all_reduce(Queue&, Tensor, Number, ReduceOp, Tensor) override {}
    std::int64_t all_reduce_workspace_bytes(Number, std::int64_t) const override { return 0; }
    void broadcast(Queue&, Tensor, int) override {}
    using Communicator::exchange;
    Pending exchange(Queue&, std::span<const Transfer>) override { return {}; }
    void barrier(Queue&) override { ++traffic_[Operation::kBarrier].calls; }
};

std::vector<int> first_ranks(int count) {
    std::vector<int> ranks(static_cast<std::size_t>(count));
    for (int rank = 0; rank < count; ++rank) {
        ranks[static_cast<std::size_t>(rank)] = rank;
    }
    return ranks;
}

// Remembers every creation, to be compared between the members.
class RecordingFactory final : public GroupFactory {
public:
    explicit RecordingFactory(int world_rank) : world_rank_(world_rank) {}
    std::unique_ptr<Communicator> make_group(std::span<const int> ranks,
                                             std::uint64_t creation) override {
        std::vector<int> list(ranks.begin(), ranks.end());
        const auto mine = std::ranges::lower_bound(list, world_rank_);
        REQUIRE(mine != list.end());
        REQUIRE(*mine == world_rank_);  // only members make a group
        creations.insert({creation, list});
        return std::make_unique<SilentCommunicator>(list, static_cast<int>(mine - list.begin()));
    }
    std::int64_t communicator_bytes(int group_size) const override { return 1000 * group_size; }

    std::set<std::pair<std::uint64_t, std::vector<int>>> creations;

private:
    int world_rank_;
};

// One rank of an imagined world.
struct ImaginedRank {
    SilentCommunicator world;
    LocalCommunicator self;
    RecordingFactory factory;
    GroupCache cache;

    ImaginedRank(int rank, int size, int max_groups)
        : world(first_ranks(size), rank),
          self(rank),
          factory(rank),
          cache(factory, world, self, max_groups, nullptr) {}
};

std::vector<int> random_group(std::mt19937& random, int size) {
    std::vector<int> ranks;
    while (ranks.empty()) {
        for (int rank = 0; rank < size; ++rank) {
            if (random() % 3 == 0) {
                ranks.push_back(rank);
            }
        }
    }
    return ranks;
}

}  // namespace

TEST_CASE("counts beyond 32 bits are cut into pieces that cover them", "[unit]") {
    constexpr std::int64_t kPiece = std::int64_t{256} << 20;
    for (const std::int64_t bytes :
         {std::int64_t{0}, std::int64_t{1}, kPiece - 1, kPiece, kPiece + 1,
          (std::int64_t{1} << 31) * 4, (std::int64_t{1} << 33) + 5, (std::int64_t{1} << 40) + 7}) {
        std::int64_t covered = 0;
        const std::int64_t pieces = num_pieces(bytes, kPiece);
        bool all_right = true;
        for (std::int64_t index = 0; index < pieces; ++index) {
            const Piece part = piece(bytes, kPiece, index);
            all_right = all_right && part.begin_bytes == covered && part.size_bytes > 0 &&
                        part.size_bytes <= std::numeric_limits<int>::max();
            covered += part.size_bytes;
        }
        CHECK(all_right);
        CHECK(covered == bytes);
    }
    CHECK(num_pieces((std::int64_t{1} << 33) + 5, kPiece) == 33);
}

TEST_CASE("counts are added with care", "[unit]") {
    CHECK(checked_total("x", Counts{}) == 0);
    CHECK(checked_total("x", Counts{3'000'000'000, 0, 3'000'000'000}) == 6'000'000'000);
    CHECK_THROWS_AS(checked_total("x", Counts{1, -1}), ShapeError);
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    CHECK(checked_total("x", Counts{kMost, 0}) == kMost);
    CHECK_THROWS_AS(checked_total("x", Counts{kMost, 1}), ShapeError);
}

TEST_CASE("even blocks differ by one at most and leave nothing out", "[unit]") {
    for (const std::int64_t total : {0, 1, 5, 7, 257}) {
        for (const int parts : {1, 2, 3, 8}) {
            std::int64_t begin = 0;
            for (int index = 0; index < parts; ++index) {
                CHECK(even_block_begin(total, parts, index) == begin);
                const std::int64_t elems = even_block_elems(total, parts, index);
                CHECK(elems - total / parts <= 1);
                begin += elems;
            }
            CHECK(begin == total);
        }
    }
}

TEST_CASE("a round of a reduction stays within its workspace", "[unit]") {
    for (const std::int64_t elem_bytes : {2, 4, 8}) {
        for (const int size : {2, 3, 8, 1000}) {
            const std::int64_t elems = reduce_round_elems(elem_bytes, size, 1 << 20);
            CHECK(elems * elem_bytes * size <= 1 << 20);
            CHECK(elems * elem_bytes % 64 == 0);
        }
    }
    CHECK(reduce_round_elems(4, 1000, 10) == 16);  // never nothing
}

TEST_CASE("ordered_reduce adds from first to last", "[unit]") {
    Queue queue = Queue::cpu(2);
    for (const std::int64_t n : {1, 31, 33, 257, 1025, 200003}) {
        std::vector<std::vector<float>> blocks(5, std::vector<float>(static_cast<std::size_t>(n)));
        std::mt19937 random(static_cast<unsigned>(n));
        std::uniform_real_distribution<float> values(-1.0F, 1.0F);
        std::vector<const void*> pointers;
        for (auto& block : blocks) {
            for (float& value : block) {
                value = values(random) * (random() % 4 == 0 ? 1e7F : 1.0F);
            }
            pointers.push_back(block.data());
        }
        std::vector<float> expected = blocks[0];
        std::vector<float> backwards = blocks[4];
        for (std::size_t i = 0; i < expected.size(); ++i) {
            for (std::size_t b = 1; b < 5; ++b) {
                expected[i] += blocks[b][i];
                backwards[i] += blocks[4 - b][i];
            }
        }
        std::vector<float> out(static_cast<std::size_t>(n) + 1, -7.0F);
        ordered_reduce(queue, Number::kFloat32, ReduceOp::kSum, pointers, out.data(), n);
        CHECK(std::memcmp(out.data(), expected.data(), expected.size() * sizeof(float)) == 0);
        CHECK(out.back() == -7.0F);
        if (n > 1000) {  // the order can be told from the result
            CHECK(std::memcmp(out.data(), backwards.data(), backwards.size() * sizeof(float)) != 0);
        }
        ordered_reduce(queue, Number::kFloat32, ReduceOp::kSum, pointers, blocks[3].data(), n);
        CHECK(blocks[3] == expected);  // out is one of the blocks
    }
}

TEST_CASE("ordered_reduce knows its numbers", "[unit]") {
    Queue queue = Queue::cpu(1);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> a = {1.0F, nan, 2.0F, -3.0F};
    const std::vector<float> b = {2.0F, 5.0F, nan, -4.0F};
    const std::vector<const void*> floats = {a.data(), b.data()};
    std::vector<float> larger(4);
    ordered_reduce(queue, Number::kFloat32, ReduceOp::kMax, floats, larger.data(), 4);
    CHECK(larger[0] == 2.0F);
    CHECK(std::isnan(larger[1]));
    CHECK(std::isnan(larger[2]));
    CHECK(larger[3] == -3.0F);

    const std::vector<BFloat16> big(3, BFloat16(256.0F));
    const std::vector<BFloat16> one(3, BFloat16(1.0F));
    const std::vector<const void*> halves = {big.data(), one.data(), one.data()};
    std::vector<BFloat16> sum(3);
    ordered_reduce(queue, Number::kBFloat16, ReduceOp::kSum, halves, sum.data(), 3);
    CHECK(static_cast<float>(sum[2]) == 258.0F);  // 256 when added in bf16

    const std::vector<std::int64_t> whole = {(std::int64_t{1} << 60) + 1, -5};
    const std::vector<const void*> wholes = {whole.data(), whole.data()};
    std::vector<std::int64_t> twice(2);
    ordered_reduce(queue, Number::kInt64, ReduceOp::kSum, wholes, twice.data(), 2);
    CHECK(twice == std::vector<std::int64_t>{(std::int64_t{1} << 61) + 2, -10});
}

TEST_CASE("one rank: every collective is a copy", "[unit]") {
    LocalCommunicator group(5);
    Queue queue = Queue::cpu(1);
    CHECK(group.group_size() == 1);
    CHECK(group.describe() == "group of world ranks 5 (this is world rank 5)");
    std::vector<float> from = {1, 2, 3};
    std::vector<float> to(3, -1.0F);
    const Tensor send(from.data(), DType::kFloat32, {3});
    const Tensor receive(to.data(), DType::kFloat32, {3});
    const Counts three = {3};
    const auto copied = [&] {
        const bool is_equal = to == from;
        to.assign(3, -1.0F);
        return is_equal;
    };
    group.all_to_all(queue, send, three, receive, three);
    CHECK(copied());
    group.start_all_to_all(queue, send, three, receive, three).wait(queue);
    CHECK(copied());
    group.all_gather(queue, send, receive, three);
    CHECK(copied());
    group.reduce_scatter(queue, send, receive, three, {});
    CHECK(copied());
    group.exchange(queue, {.send = send, .receive = receive}).wait(queue);
    CHECK(copied());
    group.all_reduce(queue, send, Number::kFloat32, ReduceOp::kSum, {});
    group.broadcast(queue, send, 0);
    group.all_gather(queue, send, send, three);  // in place
    CHECK(from == std::vector<float>{1, 2, 3});
    CHECK(group.traffic().total().sent_bytes == 0);
    CHECK(group.traffic()[Operation::kAllGather].calls == 2);

    CHECK(all_gather_value(queue, group, 2.5) == std::vector<double>{2.5});
    CHECK(broadcast_bytes(queue, group, {std::byte{3}}, 0).size() == 1);
    CHECK_NOTHROW(check_all_equal(queue, group, "anything", {}));
}

TEST_CASE("calls that do not fit are refused", "[unit]") {
    LocalCommunicator group;
    Queue queue = Queue::cpu(1);
    std::vector<float> values(6, 1.0F);
    const Tensor tensor(values.data(), DType::kFloat32, {6});
    const Tensor integers(values.data(), DType::kInt32, {6});
    const Tensor strided(values.data(), DType::kFloat32, {2, 2}, 3);
    const Counts six = {6};
    const Counts five = {5};
    const Counts two = {3, 3};
    CHECK_THROWS_AS(group.all_to_all(queue, tensor, five, tensor, six), ShapeError);
    CHECK_THROWS_AS(group.all_to_all(queue, tensor, two, tensor, six), ShapeError);
    CHECK_THROWS_AS(group.all_to_all(queue, tensor, six, integers, six), ShapeError);
    CHECK_THROWS_AS(group.all_gather(queue, strided, tensor, six), ShapeError);
    CHECK_THROWS_AS(group.reduce_scatter(queue, integers, integers, six, {}), ShapeError);
    CHECK_THROWS_AS(group.all_reduce(queue, tensor, Number::kFloat64, ReduceOp::kSum, {}),
                    ShapeError);
    CHECK_THROWS_AS(group.broadcast(queue, tensor, 1), ShapeError);
    CHECK_THROWS_AS(group.broadcast(queue, Tensor(nullptr, DType::kFloat32, {6}), 0), ShapeError);
    CHECK_THROWS_AS(group.exchange(queue, {.send = tensor}), ShapeError);
    CHECK_THROWS_AS(group.exchange(queue, {.to = 1, .from = 0}), ShapeError);
    CHECK_THROWS_WITH(group.all_gather(queue, tensor, tensor, five),
                      "all_gather in the group of world ranks 0 (this is world rank 0): the counts "
                      "of receive add up to 5, the tensor [6] has 6 elements");
}

TEST_CASE("lists of ranks are written shortly", "[unit]") {
    CHECK(describe_ranks(std::vector<int>{}).empty());
    CHECK(describe_ranks(std::vector<int>{4}) == "4");
    CHECK(describe_ranks(std::vector<int>{0, 1, 2, 5, 7, 8}) == "0-2, 5, 7-8");
}

TEST_CASE("all ranks keep the same books of groups without talking", "[unit]") {
    constexpr int kSize = 6;
    constexpr int kMaxGroups = 4;
    std::vector<std::unique_ptr<ImaginedRank>> ranks;
    for (int rank = 0; rank < kSize; ++rank) {
        ranks.push_back(std::make_unique<ImaginedRank>(rank, kSize, kMaxGroups));
    }
    std::mt19937 random(11);
    bool all_right = true;
    for (int plan = 0; plan < 400; ++plan) {
        std::vector<std::vector<int>> groups;
        for (int step = 0; step < 5; ++step) {
            groups.push_back(random_group(random, kSize));
        }
        for (auto& rank : ranks) {
            rank->cache.prepare(groups);
        }
        for (const std::vector<int>& group : groups) {
            for (int rank = 0; rank < kSize; ++rank) {
                GroupCache& cache = ranks[static_cast<std::size_t>(rank)]->cache;
                const Communicator* found = cache.use(group);
                const bool is_member = std::ranges::binary_search(group, rank);
                all_right = all_right && (found != nullptr) == is_member &&
                            cache.num_live() <= kMaxGroups &&
                            cache.counters().made - cache.counters().evicted == cache.num_live();
                if (is_member) {
                    all_right = all_right && found->world_ranks() == group;
                }
            }
        }
    }
    CHECK(all_right);
    // Every creation happened on all of its members under the same number, and on nobody else.
    for (int rank = 0; rank < kSize; ++rank) {
        const ImaginedRank& one = *ranks[static_cast<std::size_t>(rank)];
        CHECK(one.cache.history_hash() == ranks[0]->cache.history_hash());
        CHECK(one.cache.counters().evicted > 100);
        for (const auto& creation : one.factory.creations) {
            for (const int member : creation.second) {
                all_right =
                    all_right &&
                    ranks[static_cast<std::size_t>(member)]->factory.creations.contains(creation);
            }
        }
    }
    CHECK(all_right);
}

TEST_CASE("a rank that skips the groups of others falls out of step, visibly", "[unit]") {
    ImaginedRank careful(0, 3, 1);
    ImaginedRank careless(0, 3, 1);
    const std::vector<std::vector<int>> groups = {{0, 1}, {1, 2}, {0, 1}};
    for (const std::vector<int>& group : groups) {
        careful.cache.use(group);
        if (std::ranges::binary_search(group, 0)) {
            careless.cache.use(group);
        }
    }
    // Rank 1 was full when {1, 2} came, so {0, 1} had to go on rank 0 as well.
    CHECK(careful.cache.counters().made == 2);
    CHECK(careless.cache.counters().made == 1);
    CHECK(careful.cache.history_hash() != careless.cache.history_hash());
}

TEST_CASE("prepare makes a plan's groups first and never trades one for another", "[unit]") {
    ImaginedRank rank(0, 4, 2);
    rank.cache.use(std::vector<int>{0, 3});
    const std::vector<std::vector<int>> plan = {{0, 1}, {0, 2}, {0, 1, 2}, {0}, {0, 1, 2, 3}};
    rank.cache.prepare(plan);
    CHECK(rank.cache.counters().made == 3);     // {0, 1, 2} is left for its turn
    CHECK(rank.cache.counters().evicted == 1);  // {0, 3}
    const std::int64_t found = rank.cache.counters().found;
    rank.cache.use(plan[0]);
    rank.cache.use(plan[1]);
    CHECK(rank.cache.counters().found == found + 2);
    Communicator* third = rank.cache.use(plan[2]);
    REQUIRE(third != nullptr);
    Queue queue = Queue::cpu(1);
    third->barrier(queue);
    CHECK(rank.cache.counters().made == 4);
    CHECK(rank.cache.use(plan[3])->group_size() == 1);
    CHECK(rank.cache.use(plan[4]) == &rank.world);
    rank.cache.use(plan[0]);
    rank.cache.use(plan[1]);
    CHECK(rank.cache.traffic()[Operation::kBarrier].calls == 1);  // of a group that is gone

    CHECK_THROWS_AS(rank.cache.use(std::vector<int>{}), ShapeError);
    CHECK_THROWS_AS(rank.cache.use(std::vector<int>{1, 0}), ShapeError);
    CHECK_THROWS_AS(rank.cache.use(std::vector<int>{1, 1}), ShapeError);
    CHECK_THROWS_AS(rank.cache.use(std::vector<int>{1, 4}), ShapeError);
}

TEST_CASE("communicators are charged to the arena before the first one exists", "[unit]") {
    SilentCommunicator world(first_ranks(4), 0);
    RecordingFactory factory(0);
    Arena arena(1 << 20);
    LocalCommunicator self;
    const GroupCache cache(factory, world, self, 5, &arena);
    CHECK(cache.reserved_bytes() == 5 * 3 * 1000);
    CHECK(arena.current_bytes(MemoryCategory::kCommunication) ==
          Arena::padded_bytes(DType::kUInt8, {cache.reserved_bytes()}));
    Arena small(1000);
    CHECK_THROWS_AS(GroupCache(factory, world, self, 5, &small), MemoryBudgetError);
}

TEST_CASE("a group is found in microseconds", "[unit]") {
    constexpr int kSize = 256;
    ImaginedRank rank(0, kSize, 64);
    std::vector<std::vector<int>> groups;
    for (int index = 0; index < 64; ++index) {
        groups.push_back(first_ranks(kSize / 2 + index));
    }
    rank.cache.prepare(groups);
    using Clock = std::chrono::steady_clock;
    std::chrono::duration<double> best(1.0);
    for (int repeat = 0; repeat < 20; ++repeat) {
        const Clock::time_point start = Clock::now();
        for (const std::vector<int>& group : groups) {
            rank.cache.use(group);
        }
        best = std::min(best, std::chrono::duration<double>(Clock::now() - start));
    }
    INFO("microseconds: " << best.count() * 1e6 / 64);
    CHECK(best.count() / 64 < 50e-6);
}

TEST_CASE("topology is numbered by first appearance", "[unit]") {
    const Topology topology = make_topology(std::vector<int>{7, 7, 2, 7, 2});
    CHECK(topology.num_nodes == 2);
    CHECK(topology.node_of_rank == std::vector<int>{0, 0, 1, 0, 1});
    CHECK(topology.local_rank_of_rank == std::vector<int>{0, 1, 0, 2, 1});
    CHECK(topology.ranks_on_node == std::vector<int>{3, 2});
    CHECK(topology.to_string() == "5 ranks on 2 nodes: 0-1, 3 | 2, 4");
    CHECK(make_topology(std::vector<int>{0}).to_string() == "1 rank on 1 node: 0");
}

TEST_CASE("a message library is known by name and version", "[unit]") {
    CHECK(library_name("Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, May 26, 2022") ==
          "Open MPI v4.1.4");
    CHECK(library_name("MPICH Version:\t4.0.2\nMPICH Release date:\tThu Apr  7\n") ==
          "MPICH Version: 4.0.2");
    CHECK(library_name(" Some  MPI 7 \n") == "Some MPI 7");
    CHECK(library_name("").empty());
    CHECK(message_library().empty());  // none was started
}

TEST_CASE("DCP_FAKE_RANKS_PER_NODE is a positive number or an error", "[unit]") {
    unsetenv("DCP_FAKE_RANKS_PER_NODE");
    CHECK_FALSE(fake_ranks_per_node());
    setenv("DCP_FAKE_RANKS_PER_NODE", "8", 1);
    CHECK(fake_ranks_per_node() == 8);
    for (const char* text : {"", "0", "-1", "4x", "many"}) {
        setenv("DCP_FAKE_RANKS_PER_NODE", text, 1);
        CHECK_THROWS_AS(fake_ranks_per_node(), ConfigError);
    }
    unsetenv("DCP_FAKE_RANKS_PER_NODE");
}

TEST_CASE("many processes that each see one rank are told how to start", "[unit]") {
    CHECK_NOTHROW(check_launcher(1, {}));
    CHECK_NOTHROW(check_launcher(4, {.open_mpi_size = 4}));
    CHECK_NOTHROW(check_launcher(1, {.open_mpi_size = 1, .slurm_size = 4}));
    CHECK_NOTHROW(check_launcher(2, {.slurm_size = 2}));
    CHECK_NOTHROW(check_launcher(1, {.slurm_size = 1, .pmi_size = 1}));
    using Catch::Matchers::Contains;
    CHECK_THROWS_WITH(check_launcher(1, {.open_mpi_size = 16}),
                      Contains("16 processes") && Contains("mpirun of that MPI"));
    CHECK_THROWS_WITH(check_launcher(1, {.slurm_size = 8}),
                      Contains("8 processes") && Contains("--mpi=pmix"));
    CHECK_THROWS_AS(check_launcher(1, {.pmi_size = 2}), SharedConfigError);
}
