// Numbering, hold-out, order and packing of sequences, against the definitions written out naively.
#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/support/dataset_files.hpp"
#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "core/base/errors.hpp"
#include "core/base/rng.hpp"
#include "core/data/length_stats.hpp"
#include "core/data/packing.hpp"
#include "core/data/sampler.hpp"
#include "core/data/sequences.hpp"

namespace dcp::test {
namespace {

using data::Sampler;
using data::SequenceTable;
using data::Split;

struct Expected {
    std::int64_t document;
    std::vector<std::int64_t> inputs;
    std::vector<std::int64_t> targets;
};

// The definition, slowly: all pairs of a document, then cut.
std::vector<Expected> expected_sequences(const std::vector<std::vector<std::int64_t>>& documents,
                                         std::int64_t max_tokens) {
    std::vector<Expected> sequences;
    for (std::int64_t d = 0; d < std::ssize(documents); ++d) {
        const auto& tokens = documents[static_cast<std::size_t>(d)];
        for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
            if (static_cast<std::int64_t>(i) % max_tokens == 0) {
                sequences.push_back({d, {}, {}});
            }
            sequences.back().inputs.push_back(tokens[i]);
            sequences.back().targets.push_back(tokens[i + 1]);
        }
    }
    return sequences;
}

TEST_CASE("sequences are numbered and cut as defined", "[unit]") {
    const std::int64_t max_tokens = GENERATE(1, 2, 7, 31, 1000000);
    const auto first = counting_documents({1, 2, 0, 31, 32, 33, 257, 1, 8});
    auto second = counting_documents({0, 1, 15, 1}, 8);
    DatasetFolder folder;
    first.write(folder / "first");
    second.write(folder / "second");
    LlmcFile shard{.tokens = {9, 8, 7, 6, 5, 4, 3, 2, 1}};
    write_file(folder / "shard.bin", shard.bytes());
    auto documents = first.sequences;
    documents.insert(documents.end(), second.sequences.begin(), second.sequences.end());
    documents.push_back(shard.tokens);
    const auto expected = expected_sequences(documents, max_tokens);

    const auto table = SequenceTable::open(
        {folder / "first", folder / "second", folder / "shard.bin"}, max_tokens, 1000);
    REQUIRE(table.num_sequences() == std::ssize(expected));
    CHECK(table.num_documents() == std::ssize(documents));
    CHECK(table.num_one_token_documents() == 4);
    CHECK(table.num_empty_documents() == 2);
    std::int64_t pairs = 0;
    for (std::int64_t id = 0; id < table.num_sequences(); ++id) {
        const Expected& want = expected[static_cast<std::size_t>(id)];
        REQUIRE(table.tokens(id) == std::ssize(want.inputs));
        REQUIRE(table.document(id) == want.document);
        std::vector<std::int32_t> inputs(want.inputs.size(), -9);
        std::vector<std::int32_t> targets(want.inputs.size(), -9);
        table.load(id, inputs, targets);
        REQUIRE(std::equal(inputs.begin(), inputs.end(), want.inputs.begin()));
        REQUIRE(std::equal(targets.begin(), targets.end(), want.targets.begin()));
        pairs += std::ssize(inputs);
    }
    CHECK(table.num_pairs() == pairs);
    std::vector<std::int32_t> wrong(static_cast<std::size_t>(table.tokens(0)) + 1);
    CHECK_THROWS_AS(table.load(0, wrong, wrong), ShapeError);
    CHECK_THROWS_AS(table.tokens(table.num_sequences()), ShapeError);
}

TEST_CASE("a dataset without a pair is refused with its counts", "[unit]") {
    DatasetFolder folder;
    counting_documents({1, 0, 1}).write(folder / "set");
    CHECK_THROWS_WITH(SequenceTable::open({folder / "set"}, 8, 10),
                      Catch::Contains("no sequence to draw") &&
                          Catch::Contains("3 documents, of them 2 with one token and 1 with none"));
}

std::vector<std::int64_t> training_ids(const Split& split) {
    std::vector<std::int64_t> ids;
    for (std::int64_t i = 0; i < split.num_training(); ++i) {
        ids.push_back(split.training(i));
    }
    return ids;
}

TEST_CASE("held out are the last documents with a pair in the epoch order of seed 0", "[unit]") {
    DatasetFolder folder;
    std::vector<std::int64_t> lengths;
    for (std::int64_t i = 0; i < 60; ++i) {
        lengths.push_back(i * 7 % 23);  // some empty, some of one token
    }
    counting_documents(lengths).write(folder / "set");
    const auto table = SequenceTable::open({folder / "set"}, 5, 0);
    std::vector<std::int64_t> with_pair;
    for (std::int64_t i = 0; i < 60; ++i) {
        if (lengths[static_cast<std::size_t>(i)] > 1) {
            with_pair.push_back(i);
        }
    }
    const std::int64_t count = std::ssize(with_pair);
    REQUIRE(count < 60);
    for (std::int64_t held = 0; held < count; ++held) {
        const Permutation order(count, 0, 0);
        std::set<std::int64_t> documents;
        for (std::int64_t position = count - held; position < count; ++position) {
            documents.insert(with_pair[static_cast<std::size_t>(order(position))]);
        }
        std::vector<std::int64_t> want_training;
        std::vector<std::int64_t> want_validation;
        for (std::int64_t id = 0; id < table.num_sequences(); ++id) {
            (documents.count(table.document(id)) > 0 ? want_validation : want_training)
                .push_back(id);
        }
        const Split split(table, held);
        CHECK(std::ssize(split.validation_documents()) == held);
        CHECK(training_ids(split) == want_training);
        REQUIRE(split.num_validation() == std::ssize(want_validation));
        for (std::int64_t i = 0; i < split.num_validation(); ++i) {
            CHECK(split.validation(i) == want_validation[static_cast<std::size_t>(i)]);
        }
    }
    CHECK_THROWS_WITH(Split(table, count),
                      Catch::Contains(fmt::format("validation_documents is {}", count)) &&
                          Catch::Contains("60 documents, of them") &&
                          Catch::Contains(fmt::format("from 0 to {}", count - 1)));
}

TEST_CASE("documents without a pair are never held out", "[unit]") {
    DatasetFolder folder;
    counting_documents({1, 9, 0, 1, 5, 1}).write(folder / "set");
    const auto table = SequenceTable::open({folder / "set"}, 4, 0);
    const Split split(table, 1);
    const std::int64_t held = split.validation_documents().at(0);
    CHECK((held == 1 || held == 4));
    CHECK(split.num_validation() == (held == 1 ? 2 : 1));
    CHECK(split.num_training() == (held == 1 ? 1 : 2));
    CHECK_THROWS_WITH(Split(table, 2), Catch::Contains("so it must be from 0 to 1"));
}

class SamplerFixture {
public:
    SamplerFixture() {
        std::mt19937_64 random(7);
        std::vector<std::int64_t> lengths;
        for (int i = 0; i < 50; ++i) {
            lengths.push_back(static_cast<std::int64_t>(random() % 90));
        }
        counting_documents(lengths).write(folder_ / "set");
    }
    SequenceTable table() const { return SequenceTable::open({folder_ / "set"}, 16, 0); }

private:
    DatasetFolder folder_;
};

TEST_CASE("every training sequence once an epoch, whatever the batch", "[unit]") {
    const SamplerFixture fixture;
    const auto table = fixture.table();
    const Split split(table, 5);
    const std::int64_t count = split.num_training();
    std::vector<std::int64_t> one_by_one;
    Sampler single(table, split, 42, {.sequences = 1});
    for (std::int64_t i = 0; i < 3 * count; ++i) {
        CHECK(single.state() == data::SamplerState{i / count, i % count});
        one_by_one.push_back(single.next().at(0));
    }
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
        const auto begin = one_by_one.begin() + epoch * count;
        std::vector<std::int64_t> sorted(begin, begin + count);
        const Permutation order(count, 42, static_cast<std::uint64_t>(epoch));
        for (std::int64_t i = 0; i < count; ++i) {
            CHECK(sorted[static_cast<std::size_t>(i)] == split.training(order(i)));
        }
        std::sort(sorted.begin(), sorted.end());
        CHECK(sorted == training_ids(split));
    }
    CHECK_FALSE(
        std::equal(one_by_one.begin(), one_by_one.begin() + count, one_by_one.begin() + count));

    const data::BatchSize batch =
        GENERATE(data::BatchSize{.sequences = 3}, data::BatchSize{.sequences = 64},
                 data::BatchSize{.sequences = 1000}, data::BatchSize{.tokens = 1},
                 data::BatchSize{.tokens = 16}, data::BatchSize{.tokens = 100},
                 data::BatchSize{.tokens = 5000});
    Sampler sampler(table, split, 42, batch);
    std::vector<std::int64_t> drawn;
    while (std::ssize(drawn) < 2 * count) {
        const auto before = sampler.state();
        const auto ids = sampler.next();
        std::int64_t tokens = 0;
        for (const std::int64_t id : ids) {
            tokens += table.tokens(id);
        }
        if (batch.sequences > 0) {
            CHECK(std::ssize(ids) == batch.sequences);
        } else {
            CHECK((tokens <= batch.tokens || ids.size() == 1));
            Sampler peek = sampler;  // the next sequence would not have fitted
            CHECK(tokens + table.tokens(peek.next().at(0)) > batch.tokens);
        }
        Sampler resumed(table, split, 42, batch);
        resumed.restore(before);
        CHECK(resumed.next() == ids);
        CHECK(resumed.state() == sampler.state());
        drawn.insert(drawn.end(), ids.begin(), ids.end());
    }
    const auto common = std::min(drawn.size(), one_by_one.size());
    CHECK(std::equal(drawn.begin(), drawn.begin() + static_cast<std::ptrdiff_t>(common),
                     one_by_one.begin()));
}

TEST_CASE("without shuffling the sampler keeps the order of the data, epoch after epoch",
          "[unit]") {
    const SamplerFixture fixture;
    const auto table = fixture.table();
    const Split split(table, 5);
    const std::vector<std::int64_t> ids = training_ids(split);
    const data::BatchSize batch{.sequences = 7};
    Sampler sampler(table, split, 42, batch, data::SampleOrder::kStored);
    std::size_t drawn = 0;
    while (drawn < 3 * ids.size()) {
        Sampler resumed(table, split, 1, batch, data::SampleOrder::kStored);
        resumed.restore(sampler.state());
        const auto next = sampler.next();
        CHECK(resumed.next() == next);
        for (const std::int64_t id : next) {
            CHECK(id == ids[drawn++ % ids.size()]);
        }
    }
}

TEST_CASE("sampler refuses states and sizes that cannot be", "[unit]") {
    const SamplerFixture fixture;
    const auto table = fixture.table();
    const Split split(table, 0);
    Sampler sampler(table, split, 1, {.sequences = 4});
    CHECK_THROWS_WITH(
        sampler.restore({3, split.num_training()}),
        Catch::Contains("of epoch 3 does not exist") && Catch::Contains("training sequences"));
    CHECK_THROWS_AS(sampler.restore({-1, 0}), DataError);
    CHECK_THROWS_AS(sampler.restore({0, -1}), DataError);
    CHECK_THROWS_AS(Sampler(table, split, 1, {}), ConfigError);
    CHECK_THROWS_AS(Sampler(table, split, 1, {.sequences = 1, .tokens = 1}), ConfigError);
}

TEST_CASE("first-fit decreasing", "[unit]") {
    using Packed = std::vector<std::vector<std::int64_t>>;
    CHECK(data::pack({}, 10).empty());
    CHECK(data::pack(std::vector<std::int64_t>{10}, 10) == Packed{{0}});
    CHECK(data::pack(std::vector<std::int64_t>{4, 8, 1, 4, 2, 1}, 10) ==
          Packed{{1, 4}, {0, 3, 2, 5}});
    CHECK(data::pack(std::vector<std::int64_t>{5, 5, 5, 5, 5}, 10) == Packed{{0, 1}, {2, 3}, {4}});
    CHECK_THROWS_WITH(
        data::pack(std::vector<std::int64_t>{3, 11, 12}, 10),
        Catch::Contains("sequence 2 of the batch has 12 tokens") && Catch::Contains("of 10 holds"));

    std::mt19937_64 random(11);
    for (int round = 0; round < 200; ++round) {
        std::vector<std::int64_t> lengths(random() % 40);
        for (auto& length : lengths) {
            length = 1 + static_cast<std::int64_t>(random() % 100);
        }
        const auto packed = data::pack(lengths, 100);
        std::vector<std::int64_t> seen;
        std::vector<std::int64_t> sums;
        for (const auto& indices : packed) {
            std::int64_t sum = 0;
            for (const std::int64_t index : indices) {
                sum += lengths[static_cast<std::size_t>(index)];
                seen.push_back(index);
            }
            CHECK(sum <= 100);
            sums.push_back(sum);
        }
        std::sort(seen.begin(), seen.end());
        std::vector<std::int64_t> all(lengths.size());
        std::iota(all.begin(), all.end(), std::int64_t{0});
        CHECK(seen == all);
        // A guarantee of first-fit: at most one micro-batch is half empty or more.
        CHECK(std::count_if(sums.begin(), sums.end(), [](auto sum) { return sum <= 50; }) <= 1);
    }
}

TEST_CASE("a packed batch holds the sequences end to end", "[unit]") {
    DatasetFolder folder;
    counting_documents({3, 1, 6, 2}).write(folder / "set");  // 0-2, 3, 4-9, 10-11
    const auto table = SequenceTable::open({folder / "set"}, 4, 0);
    REQUIRE(table.num_sequences() == 4);
    data::PackedBatch batch;
    batch.tokens_T.assign(100, -5);  // what an earlier, larger batch left
    data::load_packed(table, std::vector<std::int64_t>{3, 1, 0, 2}, batch);
    CHECK(batch.num_sequences() == 4);
    CHECK(batch.num_tokens() == 8);
    CHECK(batch.cu_seqlens == std::vector<std::int64_t>{0, 1, 5, 7, 8});
    CHECK(batch.tokens_T == std::vector<std::int32_t>{10, 4, 5, 6, 7, 0, 1, 8});
    CHECK(batch.targets_T == std::vector<std::int32_t>{11, 5, 6, 7, 8, 1, 2, 9});
    CHECK(batch.positions_T == std::vector<std::int32_t>{0, 0, 1, 2, 3, 0, 1, 0});
    data::load_packed(table, {}, batch);
    CHECK(batch.cu_seqlens == std::vector<std::int64_t>{0});
    CHECK(batch.num_tokens() == 0);
}

TEST_CASE("lengths summed up", "[unit]") {
    CHECK(data::summarize({}).count == 0);
    const auto stats = data::summarize({9, 3, 0, 1, 1000, 3});
    CHECK(stats.count == 6);
    CHECK(stats.sum == 1016);
    CHECK(stats.min == 0);
    CHECK(stats.max == 1000);
    CHECK(stats.median == 3);
    CHECK(stats.mean == Approx(1016 / 6.0));
    CHECK(stats.p90 == Approx(9 + 0.5 * 991));
    CHECK(stats.p99 == Approx(9 + 0.95 * 991));
    REQUIRE(stats.buckets.size() == 10);  // 1, 2-3, 4-7, ..., 512-1023
    std::int64_t first = 1;
    for (const auto& bucket : stats.buckets) {
        CHECK(bucket.first == first);
        CHECK(bucket.last == 2 * first - 1);
        first *= 2;
    }
    CHECK(stats.buckets[1].count == 2);
    CHECK(stats.buckets[1].sum == 6);
    CHECK(stats.buckets[2].count == 0);
    CHECK(stats.buckets[9].sum == 1000);
    CHECK(data::summarize({2, 3}).median == 2.5);
    CHECK(data::summarize({70, 65}).buckets.size() == 1);
}

}  // namespace
}  // namespace dcp::test
