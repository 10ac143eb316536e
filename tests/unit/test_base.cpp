// core/base: memory, random numbers, element types, views, units, queues.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <catch2/catch.hpp>

#include "core/base/arena.hpp"
#include "core/base/errors.hpp"
#include "core/base/queue.hpp"
#include "core/base/rng.hpp"
#include "core/base/tensor.hpp"
#include "core/base/units.hpp"

using namespace dcp;

namespace {

constexpr std::int64_t kMiB = 1 << 20;

Tensor floats(Arena& arena, std::int64_t count) {
    return arena.allocate("floats", MemoryCategory::kActivations, DType::kFloat32, {count});
}

}  // namespace

TEST_CASE("the arena counts exact bytes by category", "[unit]") {
    Arena arena(kMiB);
    const Tensor a = arena.allocate("a", MemoryCategory::kParameters, DType::kFloat32, Shape{3, 5});
    const Tensor b = arena.allocate("b", MemoryCategory::kWorkspace, DType::kUInt8, Shape{1});
    CHECK(a.shape() == Shape{3, 5});
    for (const Tensor& tensor : {a, b}) {
        CHECK(reinterpret_cast<std::uintptr_t>(tensor.data()) % 64 == 0);
    }
    CHECK(static_cast<std::byte*>(b.data()) - static_cast<std::byte*>(a.data()) == 64);
    CHECK(arena.current_bytes(MemoryCategory::kParameters) == 64);  // 60, padded
    CHECK(arena.current_bytes(MemoryCategory::kWorkspace) == 64);
    CHECK(arena.current_bytes(MemoryCategory::kOptimizer) == 0);
    CHECK(arena.current_bytes() == 128);
    CHECK(Arena::padded_bytes(DType::kBFloat16, {33}) == 128);
    CHECK(Arena::padded_bytes(DType::kFloat32, {0, 7}) == 0);
    a.as<float>()[14] = 1;  // the memory is real
    CHECK(a.as<float>()[14] == 1);
}

TEST_CASE("arena scopes free what they saw, peaks stay", "[unit]") {
    Arena arena(kMiB);
    const Tensor kept = floats(arena, 16);
    void* first = nullptr;
    {
        const Arena::Scope outer(arena);
        first = floats(arena, 1000).data();
        {
            const Arena::Scope inner(arena);
            arena.allocate("w", MemoryCategory::kWorkspace, DType::kUInt8, {5000});
            CHECK(arena.current_bytes() == 64 + 4032 + 5056);
        }
        CHECK(arena.current_bytes() == 64 + 4032);
        CHECK(arena.current_bytes(MemoryCategory::kWorkspace) == 0);
    }
    CHECK(arena.current_bytes() == 64);
    CHECK(arena.peak_bytes() == 64 + 4032 + 5056);
    CHECK(arena.peak_bytes(MemoryCategory::kWorkspace) == 5056);
    CHECK(floats(arena, 1).data() == first);  // the same place again
    arena.reset_peak();
    CHECK(arena.peak_bytes() == 128);
    CHECK(arena.peak_bytes(MemoryCategory::kWorkspace) == 0);
    CHECK(arena.reserved_bytes() == 64 + 4032 + 5056);
    CHECK(kept.data() != first);
}

TEST_CASE("the arena's refusal says everything and changes nothing", "[unit]") {
    Arena arena(kMiB);
    arena.allocate("weights", MemoryCategory::kParameters, DType::kFloat32, {1024, 128});
    floats(arena, 1000);
    const std::string expected =
        "out of memory budget: tensor 'ffn.up' [1024, 256] bf16 (activations) needs 512.0 KiB, but "
        "memory.budget is 1.0 MiB and 515.9 KiB is held (parameters 512.0 KiB, activations 3.9 "
        "KiB); raise memory.budget, or lower batch.micro_batch_tokens or data.max_tokens, or set "
        "model.recompute_layers";
    CHECK_THROWS_WITH(
        arena.allocate("ffn.up", MemoryCategory::kActivations, DType::kBFloat16, {1024, 256}),
        expected);
    CHECK(arena.current_bytes() == 512 * 1024 + 4032);
    CHECK(arena.peak_bytes() == arena.current_bytes());
    // What is left can still be had, to the last byte.
    const std::int64_t left = arena.budget_bytes() - arena.current_bytes();
    CHECK_NOTHROW(arena.allocate("rest", MemoryCategory::kWorkspace, DType::kUInt8, {left}));
    CHECK_THROWS_AS(floats(arena, 1), MemoryBudgetError);
    CHECK_NOTHROW(floats(arena, 0));
}

TEST_CASE("a tensor too large to count in bytes is refused, not wrapped around", "[unit]") {
    Arena arena(kMiB);
    constexpr std::int64_t kHuge = std::int64_t{1} << 40;
    CHECK_THROWS_AS(
        arena.allocate("huge", MemoryCategory::kActivations, DType::kFloat32, {kHuge, kHuge}),
        MemoryBudgetError);
    CHECK(arena.current_bytes() == 0);
}

TEST_CASE("reserved memory is flat once the largest iteration has been seen", "[unit]") {
    Arena arena(64 * kMiB);
    const CounterRng rng(1, "lengths", 0);
    std::int64_t largest = 0;
    for (std::uint64_t iteration = 0; iteration < 1000; ++iteration) {
        const Arena::Scope scope(arena);
        const auto length = static_cast<std::int64_t>(rng.word(iteration) % 100000);
        floats(arena, length);
        floats(arena, 2 * length);
        largest = std::max(largest, arena.current_bytes());
        REQUIRE(arena.reserved_bytes() == largest);
    }
}

TEST_CASE("the host's budget is positive and not more than the machine has", "[unit]") {
    CHECK(default_host_budget_bytes() > 0);
    CHECK(default_host_budget_bytes() < std::int64_t{1} << 50);
}

TEST_CASE("philox gives the words of its paper's known answers", "[unit]") {
    using Words = std::array<std::uint32_t, 4>;
    CHECK(philox({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    CHECK(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
          Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
          Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
    CHECK(hash_name("") == 0xcbf29ce484222325U);
    CHECK(hash_name("a") == 0xaf63dc4c8601ec8cU);
    CHECK(hash_name("foobar") == 0x85944171f73967e8U);
}

TEST_CASE("random numbers have the moments they should", "[unit]") {
    const CounterRng rng(7, "init", hash_name("layers.0.w"));
    constexpr std::uint64_t kCount = 200000;
    double sum = 0;
    double squares = 0;
    double fourth = 0;
    double uniform = 0;
    for (std::uint64_t i = 0; i < kCount; ++i) {
        const double x = rng.normal(i);
        sum += x;
        squares += x * x;
        fourth += x * x * x * x;
        const double u = rng.uniform(i);
        REQUIRE((u > 0 && u < 1));
        uniform += u;
    }
    // Five standard errors of each mean.
    const double five = 5 / std::sqrt(static_cast<double>(kCount));
    CHECK(std::abs(sum / kCount) <= five);
    CHECK(std::abs(squares / kCount - 1) <= five * std::sqrt(2.0));
    CHECK(std::abs(fourth / kCount - 3) <= five * std::sqrt(96.0));
    CHECK(std::abs(uniform / kCount - 0.5) <= five * std::sqrt(1.0 / 12));
}

TEST_CASE("streams differ by seed, purpose and thing, and nothing else", "[unit]") {
    const std::uint64_t word = CounterRng(1, "init", 2).word(3);
    CHECK(CounterRng(1, "init", 2).word(3) == word);
    CHECK(CounterRng(2, "init", 2).word(3) != word);
    CHECK(CounterRng(1, "order", 2).word(3) != word);
    CHECK(CounterRng(1, "init", 3).word(3) != word);
    CHECK(CounterRng(1, "init", 2).word(4) != word);
}

TEST_CASE("a permutation is a bijection of any size", "[unit]") {
    const auto size = GENERATE(as<std::int64_t>{}, 0, 1, 2, 3, 4, 5, 16, 17, 1000, 65537);
    const auto epoch = GENERATE(0U, 1U);
    const Permutation permutation(size, 42, epoch);
    std::vector<bool> seen(static_cast<std::size_t>(size));
    std::int64_t fixed = 0;
    for (std::int64_t position = 0; position < size; ++position) {
        const std::int64_t value = permutation(position);
        REQUIRE((value >= 0 && value < size));
        REQUIRE_FALSE(seen[static_cast<std::size_t>(value)]);
        seen[static_cast<std::size_t>(value)] = true;
        fixed += value == position ? 1 : 0;
    }
    CHECK((size < 1000 || fixed < 10));  // one is expected
    const Permutation other(size, 42, epoch + 1);
    std::int64_t equal = 0;
    for (std::int64_t position = 0; position < size; ++position) {
        equal += permutation(position) == other(position) ? 1 : 0;
    }
    CHECK((size < 1000 || equal < 10));
}

TEST_CASE("a permutation of a huge set answers without memory", "[unit]") {
    constexpr std::int64_t kSize = (std::int64_t{1} << 40) + 7;
    const Permutation permutation(kSize, 1, 0);
    const std::int64_t value = permutation(kSize - 1);
    CHECK((value >= 0 && value < kSize));
    CHECK(value == Permutation(kSize, 1, 0)(kSize - 1));
}

TEST_CASE("bf16 rounds to nearest even", "[unit]") {
    const auto bits = [](std::uint32_t word) { return BFloat16(std::bit_cast<float>(word)).bits; };
    CHECK(bits(0x3f800000) == 0x3f80);  // 1
    CHECK(bits(0x3f807fff) == 0x3f80);  // below half
    CHECK(bits(0x3f808000) == 0x3f80);  // half: to even, down
    CHECK(bits(0x3f818000) == 0x3f82);  // half: to even, up
    CHECK(bits(0x3f808001) == 0x3f81);  // above half
    CHECK(bits(0x3fffffff) == 0x4000);  // carries into the exponent
    CHECK(bits(0x7f7fffff) == 0x7f80);  // the largest float becomes infinity
    CHECK(bits(0xff800000) == 0xff80);  // minus infinity stays
    CHECK(bits(0x80000000) == 0x8000);  // minus zero stays
    CHECK(bits(0x00000001) == 0x0000);  // the smallest denormal vanishes
    CHECK(bits(0x7f800001) == 0x7fc0);  // a NaN whose upper half says infinity stays NaN
    CHECK(bits(0xffc12345) == 0xffc1);
    CHECK(static_cast<float>(BFloat16(-2.5F)) == -2.5F);
}

TEST_CASE("views take rows, columns and other shapes of the same memory", "[unit]") {
    std::vector<float> memory(60);
    for (std::size_t i = 0; i < memory.size(); ++i) {
        memory[i] = static_cast<float>(i);
    }
    const Tensor whole(memory.data(), DType::kFloat32, {5, 12});
    const Tensor block = whole.rows(1, 3).columns(4, 6);
    CHECK(block.shape() == Shape{3, 6});
    CHECK(block.row_stride() == 12);
    CHECK(block.as<float>()[0] == 16);
    CHECK_FALSE(block.is_contiguous());
    const Tensor heads = block.reshaped({3, 2, 3});
    CHECK(heads.row_stride() == 12);
    CHECK(heads.rows(2, 1).as<float>()[0] == 40);
    CHECK(whole.reshaped({60}).dim(0) == 60);
    CHECK(Shape{5, 12}.to_string() == "[5, 12]");
    CHECK_THROWS_WITH(block.reshaped({18}), "a strided view [3, 6] cannot be seen as [18]");
    CHECK_THROWS_WITH(block.reshaped({3, 5}), "[3, 6] cannot be seen as [3, 5]");
    CHECK_THROWS_WITH(whole.rows(3, 3), "rows [3, 6) of a tensor [5, 12]");
    CHECK_THROWS_WITH(whole.columns(-1, 3), "columns [-1, 2) of a tensor [5, 12]");
    CHECK_THROWS_WITH(whole.as<BFloat16>(), "a tensor [5, 12] of fp32 is read as bf16");
    CHECK_THROWS_AS((Shape{1, -1}), ShapeError);
    CHECK_THROWS_AS((Shape{1, 1, 1, 1, 1}), ShapeError);
    CHECK_FALSE(Tensor());
}

TEST_CASE("units print and read back", "[unit]") {
    CHECK(format_bytes(0) == "0 B");
    CHECK(format_bytes(1023) == "1023 B");
    CHECK(format_bytes(1536) == "1.5 KiB");
    CHECK(format_bytes(kMiB - 1) == "1.0 MiB");
    CHECK(format_bytes(12LL * 1024 * kMiB) == "12.0 GiB");
    CHECK(format_bytes(-1536) == "-1.5 KiB");
    CHECK(format_count(0) == "0");
    CHECK(format_count(999) == "999");
    CHECK(format_count(1234567) == "1,234,567");
    CHECK(format_count(-123456) == "-123,456");
    CHECK(format_count(std::numeric_limits<std::int64_t>::min()) == "-9,223,372,036,854,775,808");
    CHECK(format_seconds(0.85) == "850 ms");
    CHECK(format_seconds(0.9999) == "1.0 s");
    CHECK(format_seconds(12.34) == "12.3 s");
    CHECK(format_seconds(59.97) == "1 min 00 s");
    CHECK(format_seconds(245) == "4 min 05 s");
    CHECK(format_seconds(2 * 3600 + 7 * 60 + 59) == "2 h 07 min");
    CHECK(format_seconds(3.6e300) == "1e+297 h");

    CHECK(parse_bytes("1048576") == 1048576);
    CHECK(parse_bytes("12GiB") == 12LL * 1024 * kMiB);
    CHECK(parse_bytes("1.5 GB") == 1500000000);
    CHECK(parse_bytes("512k") == 512000);
    CHECK(parse_bytes("0") == 0);
    for (const char* bad : {"", "GiB", "-1", "12 XB", "1 G B", "nan", "inf", "1e30", "12GiB!"}) {
        CAPTURE(bad);
        CHECK_FALSE(parse_bytes(bad).has_value());
    }
}

TEST_CASE("a queue has threads, and a profile when asked", "[unit]") {
    CHECK_THROWS_WITH(Queue::cpu(0), "a queue needs at least one thread, not 0");
    Queue queue = Queue::cpu(2);
    CHECK(queue.threads() == 2);
    { const OpTimer unseen(queue, "op", 1); }
    OpProfile profile;
    queue.set_profile(&profile);
    for (int call = 0; call < 2; ++call) {
        const OpTimer timer(queue, "op", 10);
    }
    REQUIRE(profile.entries().size() == 1);
    CHECK(profile.entries().at("op").calls == 2);
    CHECK(profile.entries().at("op").flops == 20);
    CHECK(profile.entries().at("op").seconds >= 0);
}

TEST_CASE("errors carry the exit code that the manual promises", "[unit]") {
    CHECK(ConfigError("").exit_code() == 2);
    CHECK(DataError("").exit_code() == 2);
    CHECK(UnsupportedError("").exit_code() == 2);
    CHECK(MemoryBudgetError("").exit_code() == 3);
    CHECK(IoError("").exit_code() == 3);
    CHECK(NonFiniteError("").exit_code() == 3);
}
