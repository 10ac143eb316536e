// How the packed sequences of one step are laid over the group that runs it: which tokens each rank
// holds, and in what order. Pure: the same on every rank, from lengths and degrees alone.
//
// The group is `ring` parts of `ulysses` ranks: group rank = ring index * ulysses + ulysses index.
// Every sequence is spread over all parts: part j holds its j-th piece from the front and its j-th
// piece from the back, so that with causal attention, where later tokens see more keys, all parts
// have the same work. Inside a part tokens are ordered by sequence, front before back, and cut into
// one shard a rank. With ring 2, ulysses 2 and lengths 8 and 5:
//
//     sequence 0   a0 a1 a2 a3 a4 a5 a6 a7        part 0   a0 a1 a6 a7 b0 b1 b4
//     sequence 1   b0 b1 b2 b3 b4                 part 1   a2 a3 a4 a5 b2 b3
//
//     rank 0   a0 a1 a6      rank 1   a7 b0 b1 b4      rank 2   a2 a3 a4      rank 3   a5 b2 b3
//
// Nothing is padded. Parts differ by one token at most, and so do the shards of a part; a shard is
// empty when there are fewer tokens than ranks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dcp::model {

// Tokens [position, position + count) of a sequence; consecutive rows where they are held.
struct Piece {
    std::int32_t sequence = 0;  // index into the lengths of the step
    std::int64_t position = 0;
    std::int64_t count = 0;
    bool operator==(const Piece&) const = default;
};

// The rows of a ring part that belong to one sequence: [row, row + front_count) from its front, and
// behind them back_count from its back.
struct PartRows {
    std::int64_t row = 0;
    std::int64_t front_count = 0;
    std::int64_t front_position = 0;
    std::int64_t back_count = 0;
    std::int64_t back_position = 0;

    std::int64_t count() const { return front_count + back_count; }
};

class StepLayout {
public:
    // Degrees of at least 1, lengths of at least 0; ShapeError otherwise.
    StepLayout(std::span<const std::int64_t> lengths, int ulysses, int ring);

    int ulysses() const { return ulysses_; }
    int ring() const { return ring_; }
    int num_sequences() const { return num_sequences_; }

    // What a rank holds, in the order of its rows.
    std::span<const Piece> pieces(int group_rank) const;
    std::int64_t num_tokens(int group_rank) const;

    std::int64_t part_tokens(int ring_index) const;
    std::int64_t largest_part_tokens() const;
    // One entry a sequence, in their order; some may be without rows.
    std::span<const PartRows> part_rows(int ring_index) const;

private:
    struct Part {
        std::vector<PartRows> rows;
        std::int64_t num_tokens = 0;
    };
    struct Shard {
        std::vector<Piece> pieces;
        std::int64_t num_tokens = 0;
    };

    void spread(std::span<const std::int64_t> lengths);
    void cut(const Part& part);

    int ulysses_;
    int ring_;
    int num_sequences_;
    std::vector<Part> parts_;
    std::vector<Shard> shards_;
};

}  // namespace dcp::model
