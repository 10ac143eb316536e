#include "core/plan/codec.hpp"

#include <bit>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "core/base/errors.hpp"
#include "core/base/rng.hpp"

namespace dcp::plan {

namespace {

constexpr std::string_view kMagic = "DCPP";
constexpr std::uint64_t kVersion = 1;
constexpr std::size_t kWordBytes = 8;
constexpr std::uint64_t kMaxStrategy = 1U << 20;  // a Ulysses or ring degree; keeps products small

std::uint64_t zigzag(std::int64_t value) {
    return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}

std::int64_t unzigzag(std::uint64_t value) {
    return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

class Writer {
public:
    void word(std::uint64_t value) {
        for (std::size_t i = 0; i < kWordBytes; ++i) {
            bytes.push_back(static_cast<std::byte>(value >> (8 * i)));
        }
    }
    void real(double value) { word(std::bit_cast<std::uint64_t>(value)); }
    void varint(std::uint64_t value) {
        for (; value >= 0x80; value >>= 7) {
            bytes.push_back(static_cast<std::byte>(value | 0x80));
        }
        bytes.push_back(static_cast<std::byte>(value));
    }
    void varint(std::int64_t value) { varint(static_cast<std::uint64_t>(value)); }
    void varint(int value) { varint(static_cast<std::uint64_t>(value)); }

    std::vector<std::byte> bytes;
};

class Reader {
public:
    explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

    [[noreturn]] void refuse(std::string_view what) const {
        throw PlanError(fmt::format("plan bytes: {} at byte {} of {}", what, next_, bytes_.size()));
    }
    std::uint8_t byte() {
        if (next_ == bytes_.size()) {
            refuse("cut short");
        }
        return std::to_integer<std::uint8_t>(bytes_[next_++]);
    }
    std::uint64_t word() {
        std::uint64_t value = 0;
        for (std::size_t i = 0; i < kWordBytes; ++i) {
            value |= static_cast<std::uint64_t>(byte()) << (8 * i);
        }
        return value;
    }
    // A quantity: finite, not negative, and one of the two zeros only.
    double real(std::string_view what) {
        const auto value = std::bit_cast<double>(word());
        if (!std::isfinite(value) || std::signbit(value)) {
            refuse(what);
        }
        return value;
    }
    std::uint64_t varint(std::string_view what) {
        std::uint64_t value = 0;
        for (int shift = 0; shift < 64; shift += 7) {
            const std::uint64_t piece = byte();
            if (shift == 63 && piece > 1) {
                break;  // more than 64 bits
            }
            value |= (piece & 0x7F) << shift;
            if (piece < 0x80) {
                if (piece == 0 && shift > 0) {
                    break;  // longer than needed
                }
                return value;
            }
        }
        refuse(what);
    }
    std::uint64_t at_most(std::uint64_t limit, std::string_view what) {
        const std::uint64_t value = varint(what);
        if (value > limit) {
            refuse(what);
        }
        return value;
    }
    std::size_t remaining() const { return bytes_.size() - next_; }

private:
    std::span<const std::byte> bytes_;
    std::size_t next_ = 0;
};

std::uint64_t checksum(std::span<const std::byte> bytes) {
    // Bytes may be looked at as characters.
    return hash_name({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

struct Run {
    int first;
    int count;
};

std::vector<Run> runs_of(const std::vector<int>& world_ranks) {
    std::vector<Run> runs;
    for (const int rank : world_ranks) {
        if (!runs.empty() && runs.back().first + runs.back().count == rank) {
            ++runs.back().count;
        } else {
            runs.push_back({.first = rank, .count = 1});
        }
    }
    return runs;
}

void write_step(Writer& writer, const Step& step) {
    const std::vector<Run> runs = runs_of(step.world_ranks);
    writer.varint(static_cast<std::uint64_t>(runs.size()));
    int next = 0;  // the first rank that this run may start at
    for (const Run& run : runs) {
        writer.varint(run.first - next);
        writer.varint(run.count - 1);
        next = run.first + run.count + 1;
    }
    writer.varint(step.strategy.ulysses);
    writer.varint(step.strategy.ring);
    writer.varint(step.recompute_layers);
    writer.varint(static_cast<std::uint64_t>(step.sequences.size()));
    std::int64_t last = 0;
    for (const std::int32_t sequence : step.sequences) {
        writer.varint(zigzag(sequence - last));
        last = sequence;
    }
    writer.real(step.start_seconds);
    writer.real(step.seconds);
    writer.real(step.peak_bytes);
}

void read_ranks(Reader& reader, const PlanScope& scope, Step& step) {
    const auto ranks = static_cast<std::uint64_t>(scope.ranks);
    const std::uint64_t num_runs = reader.at_most(ranks, "a number of rank runs out of range");
    std::uint64_t next = 0;
    for (std::uint64_t run = 0; run < num_runs; ++run) {
        next += reader.at_most(ranks, "a rank out of range");
        const std::uint64_t count = reader.at_most(ranks, "a rank run out of range") + 1;
        if (next + count > ranks) {
            reader.refuse("a rank out of range");
        }
        for (std::uint64_t i = 0; i < count; ++i) {
            step.world_ranks.push_back(static_cast<int>(next + i));
        }
        next += count + 1;
    }
}

Step read_step(Reader& reader, const PlanScope& scope) {
    Step step;
    read_ranks(reader, scope, step);
    step.strategy.ulysses =
        static_cast<int>(reader.at_most(kMaxStrategy, "a Ulysses degree out of range"));
    step.strategy.ring =
        static_cast<int>(reader.at_most(kMaxStrategy, "a ring degree out of range"));
    step.recompute_layers =
        static_cast<int>(reader.at_most(kMaxStrategy, "a recompute depth out of range"));
    const std::uint64_t count =
        reader.at_most(std::min(static_cast<std::uint64_t>(scope.sequences),
                                static_cast<std::uint64_t>(reader.remaining())),
                       "a number of sequences out of range");
    step.sequences.reserve(count);
    std::int64_t last = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
        const std::int64_t difference = unzigzag(reader.varint("a sequence out of range"));
        if (difference < -last || difference >= scope.sequences - last) {
            reader.refuse("a sequence out of range");
        }
        last += difference;
        step.sequences.push_back(static_cast<std::int32_t>(last));
    }
    step.start_seconds = reader.real("a start that is no time");
    step.seconds = reader.real("a duration that is no time");
    step.peak_bytes = reader.real("a peak that is no size");
    return step;
}

}  // namespace

std::vector<std::byte> serialize(const Plan& plan, const PlanScope& scope) {
    Writer writer;
    for (const char letter : kMagic) {
        writer.bytes.push_back(static_cast<std::byte>(letter));
    }
    writer.varint(kVersion);
    writer.varint(scope.ranks);
    writer.varint(scope.sequences);
    writer.real(plan.makespan_seconds);
    writer.real(plan.lower_bound_seconds);
    writer.varint(static_cast<std::uint64_t>(plan.steps.size()));
    for (const Step& step : plan.steps) {
        write_step(writer, step);
    }
    writer.word(checksum(writer.bytes));
    return writer.bytes;
}

std::uint64_t plan_hash(std::span<const std::byte> bytes) {
    if (bytes.size() < kWordBytes) {
        throw PlanError(fmt::format("plan bytes: {} bytes are no plan", bytes.size()));
    }
    return Reader(bytes.last(kWordBytes)).word();
}

Plan parse_plan(std::span<const std::byte> bytes, const PlanScope& scope) {
    const std::uint64_t claimed = plan_hash(bytes);
    const auto body = bytes.first(bytes.size() - kWordBytes);
    Reader reader(body);
    for (const char letter : kMagic) {
        if (reader.byte() != static_cast<std::uint8_t>(letter)) {
            reader.refuse("not a plan");
        }
    }
    if (const std::uint64_t version = reader.varint("no version"); version != kVersion) {
        throw PlanError(fmt::format("plan bytes: version {}, this program reads version {}",
                                    version, kVersion));
    }
    if (checksum(body) != claimed) {
        throw PlanError("plan bytes: the checksum does not match, they were damaged on the way");
    }
    const std::uint64_t ranks = reader.varint("no number of ranks");
    const std::uint64_t sequences = reader.varint("no number of sequences");
    if (ranks != static_cast<std::uint64_t>(scope.ranks) ||
        sequences != static_cast<std::uint64_t>(scope.sequences)) {
        throw PlanError(
            fmt::format("plan bytes: made for {} ranks and {} sequences, expected {} and {}", ranks,
                        sequences, scope.ranks, scope.sequences));
    }
    Plan plan;
    plan.makespan_seconds = reader.real("a makespan that is no time");
    plan.lower_bound_seconds = reader.real("a bound that is no time");
    // Fillers come on top of the steps with sequences; no step is shorter than its three numbers.
    const std::uint64_t num_steps = reader.at_most(
        std::min(sequences * (ranks + 1), std::uint64_t{reader.remaining()} / (3 * kWordBytes)),
        "more steps than there can be");
    for (std::uint64_t i = 0; i < num_steps; ++i) {
        plan.steps.push_back(read_step(reader, scope));
    }
    if (reader.remaining() != 0) {
        reader.refuse("bytes left over");
    }
    return plan;
}

}  // namespace dcp::plan
