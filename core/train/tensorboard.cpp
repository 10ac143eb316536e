#include "core/train/tensorboard.hpp"

#include <array>
#include <bit>
#include <chrono>

#include <fmt/format.h>
#include <unistd.h>

#include "core/base/crc32c.hpp"

namespace dcp::train {

namespace {

enum class WireType : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

template <class Unsigned>
void put_little_endian(std::string& out, Unsigned value) {
    for (std::size_t byte = 0; byte < sizeof(value); ++byte) {
        out += static_cast<char>((value >> (8 * byte)) & 0xFF);
    }
}

void put_varint(std::string& out, std::uint64_t value) {
    while (value >= 0x80) {
        out += static_cast<char>((value & 0x7F) | 0x80);
        value >>= 7;
    }
    out += static_cast<char>(value);
}

void put_key(std::string& out, std::uint64_t field, WireType type) {
    put_varint(out, (field << 3) | static_cast<std::uint64_t>(type));
}

void put_double(std::string& out, std::uint64_t field, double value) {
    put_key(out, field, WireType::kFixed64);
    put_little_endian(out, std::bit_cast<std::uint64_t>(value));
}

void put_float(std::string& out, std::uint64_t field, double value) {
    put_key(out, field, WireType::kFixed32);
    put_little_endian(out, std::bit_cast<std::uint32_t>(static_cast<float>(value)));
}

void put_bytes(std::string& out, std::uint64_t field, std::string_view bytes) {
    put_key(out, field, WireType::kBytes);
    put_varint(out, bytes.size());
    out += bytes;
}

// So that the checksum of bytes that hold checksums does not become a constant.
std::uint32_t masked_crc(std::string_view bytes) {
    return std::rotr(crc32c(bytes), 15) + 0xA282EAD8U;
}

double seconds_since_1970() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

std::string host_name() {
    std::array<char, 256> name{};
    return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "host";
}

}  // namespace

std::string frame_record(std::string_view message) {
    std::string record;
    put_little_endian(record, static_cast<std::uint64_t>(message.size()));
    put_little_endian(record, masked_crc(record));
    record += message;
    put_little_endian(record, masked_crc(message));
    return record;
}

std::string version_event(double wall_seconds) {
    std::string event;
    put_double(event, 1, wall_seconds);
    put_bytes(event, 3, "brain.Event:2");
    return event;
}

std::string scalar_event(double wall_seconds,
                         std::int64_t iteration,
                         std::span<const Scalar> scalars) {
    std::string summary;
    for (const Scalar& scalar : scalars) {
        std::string value;
        put_bytes(value, 1, scalar.tag);
        put_float(value, 2, scalar.value);
        put_bytes(summary, 1, value);
    }
    std::string event;
    put_double(event, 1, wall_seconds);
    put_key(event, 2, WireType::kVarint);
    put_varint(event, static_cast<std::uint64_t>(iteration));
    put_bytes(event, 5, summary);
    return event;
}

std::string event_file_name() {
    return fmt::format("events.out.tfevents.{}.{}.{}",
                       static_cast<std::int64_t>(seconds_since_1970()), host_name(), getpid());
}

EventFile::EventFile(const std::string& path) : file_(path) {
    file_.append(frame_record(version_event(seconds_since_1970())));
}

void EventFile::append(std::int64_t iteration, std::span<const Scalar> scalars) {
    file_.append(frame_record(scalar_event(seconds_since_1970(), iteration, scalars)));
}

}  // namespace dcp::train
