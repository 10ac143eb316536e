// Packing and unpacking of heads on the emulator, against the copies and sums that the CPU makes
// (core/model/sharded_attention.cpp) and the rotation in double.
#include <array>
#include <cstdint>
#include <vector>

#include "tests/support/compare.hpp"
#include "tests/support/reference.hpp"
#include "tests/support/tensors.hpp"
#include "tests/support/test_queue.hpp"
#include <catch2/catch.hpp>

#include "core/base/errors.hpp"
#include "core/model/head_split.hpp"
#include "kernels/cuda/exchange_heads.hpp"
#include "kernels/rope.hpp"

namespace dcp::test {
namespace {

using kernels::cuda::ExchangedHeads;

constexpr DType kFp32 = DType::kFloat32;
constexpr DType kBf16 = DType::kBFloat16;
constexpr double kTheta = 10000;
constexpr std::int64_t kPositions = 100;

struct ExchangeCase {
    ExchangedHeads heads;
    std::int64_t T = 1;
    DType rows = kFp32;
    DType blocks = kFp32;
    bool turns = true;
};

// Copies of whole heads: heads_of(peer)[slot] is the head of the rows.
std::vector<std::vector<std::int64_t>> slots_of(const ExchangedHeads& heads) {
    const std::int64_t H = heads.all_heads;
    const std::int64_t G = heads.all_kv_heads;
    std::vector<std::vector<std::int64_t>> slots(static_cast<std::size_t>(heads.peers));
    for (int peer = 0; peer < heads.peers; ++peer) {
        auto& of_peer = slots[static_cast<std::size_t>(peer)];
        for (std::int64_t head = 0; head < H / heads.peers; ++head) {
            of_peer.push_back(peer * (H / heads.peers) + head);
        }
        if (G == 0) {
            continue;
        }
        const model::HeadSplit split({.heads = H, .kv_heads = G, .head_dim = heads.head_dim},
                                     heads.peers);
        for (const std::int64_t first : {H, H + G}) {
            for (std::int64_t index = 0; index < split.kv_heads; ++index) {
                of_peer.push_back(first + split.kv_head(peer, index));
            }
        }
    }
    return slots;
}

// Head `head` of token t in rows of `heads` heads.
std::size_t at(std::int64_t t, std::int64_t heads, std::int64_t head, std::int64_t D) {
    return static_cast<std::size_t>((t * heads + head) * D);
}

// The query and key heads of rows [T, H + 2 G, D].
Values turned(const Values& rows,
              const ExchangeCase& c,
              const std::vector<std::int32_t>& positions,
              bool inverse) {
    const std::int64_t D = c.heads.head_dim;
    const std::int64_t all = c.heads.all_heads + 2 * c.heads.all_kv_heads;
    if (!c.turns || c.T == 0) {
        return rows;
    }
    Values result = reference::rope(rows, positions, D, kTheta, inverse);
    for (std::int64_t t = 0; t < c.T; ++t) {
        for (std::int64_t head = all - c.heads.all_kv_heads; head < all; ++head) {
            for (std::int64_t i = 0; i < D; ++i) {
                const std::size_t elem = at(t, all, head, D) + static_cast<std::size_t>(i);
                result[elem] = rows[elem];
            }
        }
    }
    return result;
}

struct Expected {
    Values blocks;  // of rows
    Values rows;    // of the blocks that come back
};
Expected expected_of(const ExchangeCase& c,
                     const Values& rows,
                     const Values& returned,
                     const std::vector<std::int32_t>& positions) {
    const std::int64_t D = c.heads.head_dim;
    const std::int64_t all = c.heads.all_heads + 2 * c.heads.all_kv_heads;
    const auto slots = slots_of(c.heads);
    const auto num_slots = static_cast<std::int64_t>(slots[0].size());
    const Values sent = turned(rows, c, positions, false);
    Expected expected{Values(returned.size()), Values(rows.size())};
    for (std::int64_t peer = 0; peer < c.heads.peers; ++peer) {
        for (std::int64_t t = 0; t < c.T; ++t) {
            for (std::int64_t slot = 0; slot < num_slots; ++slot) {
                const std::int64_t head =
                    slots[static_cast<std::size_t>(peer)][static_cast<std::size_t>(slot)];
                for (std::int64_t i = 0; i < D; ++i) {
                    const auto column = static_cast<std::size_t>(i);
                    const std::size_t in_rows = at(t, all, head, D) + column;
                    const std::size_t in_blocks = at(peer * c.T + t, num_slots, slot, D) + column;
                    expected.blocks[in_blocks] = sent[in_rows];
                    expected.rows[in_rows] += returned[in_blocks];
                }
            }
        }
    }
    expected.rows = turned(expected.rows, c, positions, true);
    return expected;
}

void check_exchange(Queue& queue, const ExchangeCase& c) {
    const std::int64_t D = c.heads.head_dim;
    const std::int64_t columns = c.heads.all_features();
    const std::int64_t features = c.heads.features();
    CAPTURE(c.heads.peers, c.heads.all_heads, c.heads.all_kv_heads, D, c.T, name(c.rows),
            name(c.blocks), c.turns);
    auto cosines = nan_tensor(kFp32, {kPositions, D / 2});
    auto sines = nan_tensor(kFp32, {kPositions, D / 2});
    kernels::rope_fill_table(queue, {cosines, sines}, kTheta);
    std::vector<std::int32_t> positions;
    for (std::int64_t t = 0; t < c.T; ++t) {
        positions.push_back(static_cast<std::int32_t>((t * 37 + 5) % kPositions));
    }
    const auto positions_T = int_tensor(positions);
    const kernels::cuda::Rotation rotation =
        c.turns ? kernels::cuda::Rotation{positions_T, cosines, sines} : kernels::cuda::Rotation{};
    const auto rows = random_tensor(c.rows, {c.T, columns}, 1, 1, 0, columns + 3);
    auto blocks = nan_tensor(c.blocks, {c.T * c.heads.peers, features}, features + 1);
    const auto returned = random_tensor(c.blocks, {c.T * c.heads.peers, features}, 2);
    auto gradients = nan_tensor(c.rows, {c.T, columns}, columns + 8);
    kernels::cuda::pack_heads(queue, {c.heads, rows, rotation, blocks});
    kernels::cuda::unpack_heads(queue, {c.heads, returned, rotation, gradients});
    queue.synchronize();

    const Expected expected = expected_of(c, rows.values(), returned.values(), positions);
    CHECK((blocks.guards_intact() && gradients.guards_intact()));
    if (!c.turns && c.rows == c.blocks) {
        CHECK(blocks.values() == expected.blocks);  // copies
    }
    // A rotation is three roundings, a sum at most three more; half an epsilon where it is stored.
    const double roundings = 4 * epsilon(kFp32);
    CHECK(relative_error(blocks, expected.blocks) <= roundings + epsilon(c.blocks) / 2);
    CHECK(relative_error(gradients, expected.rows) <= roundings + epsilon(c.rows) / 2);
}

TEST_CASE("cuda exchange: heads to their peers and back, every layout", "[emulated]") {
    TestQueue queue(1);
    // peers, query heads, key/value heads: whole groups, one group for all, groups cut unevenly,
    // as many key heads as query heads, a single peer, queries alone.
    for (const auto& [u, H, G] :
         {std::array{2, 4, 2}, std::array{4, 4, 1}, std::array{4, 12, 6}, std::array{3, 6, 6},
          std::array{1, 2, 1}, std::array{2, 6, 0}, std::array{4, 12, 2}}) {
        for (const int D : {2, 6, 64, 72}) {
            for (const DType dtype : {kFp32, kBf16}) {
                check_exchange(queue, {.heads = {u, H, G, D},
                                       .T = D == 64 ? 33 : 5,
                                       .rows = dtype,
                                       .blocks = dtype,
                                       .turns = G > 0});
            }
        }
        check_exchange(queue, {.heads = {u, H, G, 16}, .T = 1, .turns = false});
        check_exchange(queue, {.heads = {u, H, G, 16}, .T = 0});
        check_exchange(queue, {.heads = {u, H, G, 18}, .T = 31, .rows = kBf16, .blocks = kFp32});
    }
}

TEST_CASE("cuda exchange: what does not fit is refused", "[emulated]") {
    TestQueue queue(1);
    const auto rows = random_tensor(kFp32, {3, 64}, 1);
    auto blocks = nan_tensor(kFp32, {6, 32});
    auto narrow = nan_tensor(kFp32, {6, 31});
    const auto pack = [&](const ExchangedHeads& heads, Tensor to) {
        kernels::cuda::pack_heads(queue, {heads, rows, {}, to});
    };
    pack({2, 4, 2, 8}, blocks);
    CHECK_THROWS_WITH(pack({2, 4, 2, 8}, narrow),
                      "pack_heads: blocks has shape [6, 31], not [6, 32]");
    CHECK_THROWS_WITH(pack({3, 4, 2, 8}, blocks),
                      "pack_heads needs peers that divide the query heads");
    CHECK_THROWS_WITH(pack({2, 4, 3, 8}, blocks),
                      "pack_heads needs key/value heads that divide the query heads");
    const auto table = random_tensor(kFp32, {10, 3}, 1);
    CHECK_THROWS_WITH(
        kernels::cuda::pack_heads(
            queue, {{2, 4, 2, 8}, rows, {int_tensor({0, 1, 2}), table, table}, blocks}),
        "pack_heads needs tables of fp32 with half a head dimension of columns");
}

}  // namespace
}  // namespace dcp::test
