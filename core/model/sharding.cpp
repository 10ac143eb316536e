#include "core/model/sharding.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/errors.hpp"

namespace dcp::model {

StepLayout::StepLayout(std::span<const std::int64_t> lengths, int ulysses, int ring)
    : ulysses_(ulysses), ring_(ring), num_sequences_(static_cast<int>(lengths.size())) {
    if (ulysses < 1 || ring < 1) {
        throw ShapeError(fmt::format(
            "a step needs degrees of at least 1, not ulysses {} and ring {}", ulysses, ring));
    }
    for (std::size_t i = 0; i < lengths.size(); ++i) {
        if (lengths[i] < 0) {
            throw ShapeError(fmt::format("sequence {} of a step has length {}", i, lengths[i]));
        }
    }
    spread(lengths);
    shards_.reserve(static_cast<std::size_t>(ulysses) * static_cast<std::size_t>(ring));
    for (const Part& part : parts_) {
        cut(part);
    }
}

// Tokens that do not divide by the number of parts go one each to the next parts in turn, where the
// sequence before left off: that keeps the parts' totals within one token of each other.
void StepLayout::spread(std::span<const std::int64_t> lengths) {
    parts_.resize(static_cast<std::size_t>(ring_));
    int turn = 0;
    for (const std::int64_t length : lengths) {
        const auto extra = static_cast<int>(length % ring_);
        std::int64_t front = 0;
        std::int64_t back = length;
        for (int index = 0; index < ring_; ++index) {
            Part& part = parts_[static_cast<std::size_t>(index)];
            const bool has_extra = (index - turn + ring_) % ring_ < extra;
            const std::int64_t count = length / ring_ + (has_extra ? 1 : 0);
            PartRows rows{.row = part.num_tokens,
                          .front_count = count - count / 2,
                          .front_position = front,
                          .back_count = count / 2};
            front += rows.front_count;
            back -= rows.back_count;
            rows.back_position = back;
            part.rows.push_back(rows);
            part.num_tokens += count;
        }
        turn = (turn + extra) % ring_;
    }
}

void StepLayout::cut(const Part& part) {
    // Row numbers are the part's; a shard's pieces are what falls between its two.
    for (int index = 0; index < ulysses_; ++index) {
        const std::int64_t begin = part.num_tokens * index / ulysses_;
        const std::int64_t end = part.num_tokens * (index + 1) / ulysses_;
        Shard shard{.num_tokens = end - begin};
        const auto add = [&](int sequence, std::int64_t row, std::int64_t position,
                             std::int64_t count) {
            const std::int64_t first = std::max(row, begin);
            const std::int64_t held = std::min(row + count, end) - first;
            if (held <= 0) {
                return;
            }
            const Piece piece{
                .sequence = sequence, .position = position + first - row, .count = held};
            if (!shard.pieces.empty()) {
                Piece& last = shard.pieces.back();
                if (last.sequence == sequence && last.position + last.count == piece.position) {
                    last.count += held;
                    return;
                }
            }
            shard.pieces.push_back(piece);
        };
        for (int sequence = 0; sequence < num_sequences_; ++sequence) {
            const PartRows& rows = part.rows[static_cast<std::size_t>(sequence)];
            add(sequence, rows.row, rows.front_position, rows.front_count);
            add(sequence, rows.row + rows.front_count, rows.back_position, rows.back_count);
        }
        shards_.push_back(std::move(shard));
    }
}

std::span<const Piece> StepLayout::pieces(int group_rank) const {
    return shards_.at(static_cast<std::size_t>(group_rank)).pieces;
}

std::int64_t StepLayout::num_tokens(int group_rank) const {
    return shards_.at(static_cast<std::size_t>(group_rank)).num_tokens;
}

std::int64_t StepLayout::part_tokens(int ring_index) const {
    return parts_.at(static_cast<std::size_t>(ring_index)).num_tokens;
}

std::int64_t StepLayout::largest_part_tokens() const {
    return std::ranges::max_element(parts_, {}, &Part::num_tokens)->num_tokens;
}

std::span<const PartRows> StepLayout::part_rows(int ring_index) const {
    return parts_.at(static_cast<std::size_t>(ring_index)).rows;
}

}  // namespace dcp::model
