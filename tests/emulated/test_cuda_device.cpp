// The device layer (core/base/cuda) on the emulator's runtime, whose streams do nothing before
// somebody waits for them: an order that was not asked for shows.
#include <cmath>
#include <utility>
#include <vector>

#include "tests/cuda_emu/fake_device.hpp"
#include "tests/emulated/emulation.hpp"
#include <catch2/catch.hpp>

#include "core/base/arena.hpp"
#include "core/base/copy.hpp"
#include "core/base/cuda/arena_memory.hpp"
#include "core/base/cuda/availability.hpp"
#include "core/base/cuda/check.hpp"
#include "core/base/cuda/memory.hpp"
#include "core/base/cuda/timer.hpp"
#include "core/base/errors.hpp"
#include "kernels/cuda/compat.cuh"

namespace dcp::test {
namespace {

using cuda::DeviceBuffer;
using cuda::Event;
using cuda::EventKind;
using cuda::PinnedBuffer;
using cuda::StagedUpload;
using cuda::Stream;

__global__ void add_one(float* values, int count) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) {
        values[i] += 1.0F;
    }
}

void launch_add_one(const Stream& stream, std::byte* values, int count) {
    DCP_LAUNCH(add_one, 1, 32, 0, stream.get(), reinterpret_cast<float*>(values), count);
    cuda::check_launch("add_one", stream.get());
}

float first_float(Stream& stream, const DeviceBuffer& buffer) {
    float value = 0;
    stream.copy_to_host(&value, buffer.data(), sizeof value);
    return value;
}

template <class Owner, class Make, class Count>
void check_ownership(Make make, Count count) {
    const auto before = count();
    {
        Owner first = make();
        CHECK(count() > before);
        const auto held = count();
        Owner second = std::move(first);
        CHECK(count() == held);
        Owner& same = second;
        second = std::move(same);
        CHECK(count() == held);
        first = std::move(second);
        CHECK(count() == held);
    }
    CHECK(count() == before);
    const Owner nothing;  // owns nothing, frees nothing
}

TEST_CASE("cuda device: owners free what they own, once", "[emulated]") {
    check_ownership<Stream>([] { return Stream::create(); }, cuda_emu::num_streams);
    check_ownership<Event>([] { return Event::create(EventKind::kOrder); }, cuda_emu::num_events);
    check_ownership<DeviceBuffer>([] { return DeviceBuffer("test", 100); },
                                  cuda_emu::device_bytes_held);
    check_ownership<PinnedBuffer>([] { return PinnedBuffer(100); }, cuda_emu::pinned_bytes_held);
}

TEST_CASE("cuda device: the runtime does nothing before it must", "[emulated]") {
    Stream stream = Stream::create();
    const DeviceBuffer buffer("test", 64);
    const PinnedBuffer pinned(64);
    auto* const value = reinterpret_cast<float*>(pinned.data());
    *value = 1;
    cuda::check(
        cudaMemcpyAsync(buffer.data(), value, sizeof *value, cudaMemcpyHostToDevice, stream.get()),
        "copy");
    *value = 5;  // too early: the copy has not run
    launch_add_one(stream, buffer.data(), 1);
    CHECK(first_float(stream, buffer) == 6);
    float pageable = 1;
    stream.copy_to_device(buffer.data(), &pageable, sizeof pageable);
    pageable = 5;  // not too early
    CHECK(first_float(stream, buffer) == 1);
    CHECK_THROWS_WITH(cudaMemsetAsync(buffer.data(), 0, 4, nullptr),
                      Catch::Contains("default stream"));
}

TEST_CASE("cuda device: events order streams", "[emulated]") {
    for (const bool waits : {true, false}) {
        Stream producer = Stream::create();
        Stream consumer = Stream::create();
        const DeviceBuffer buffer("test", 64);
        Event is_written = Event::create(EventKind::kOrder);
        const float one = 1;
        producer.copy_to_device(buffer.data(), &one, sizeof one);
        is_written.record(producer);
        CHECK_FALSE(is_written.is_done());
        if (waits) {
            consumer.wait_for(is_written);
        }
        launch_add_one(consumer, buffer.data(), 1);
        const float result = first_float(consumer, buffer);
        CHECK((waits ? result == 2 : std::isnan(result)));
        CHECK(is_written.is_done() == waits);
    }
}

TEST_CASE("cuda device: staged uploads may be overtaken by the host", "[emulated]") {
    Stream stream = Stream::create();
    StagedUpload staging(8 * sizeof(float));
    std::vector<DeviceBuffer> targets;
    for (int i = 0; i < 5; i++) {
        targets.emplace_back("test", 8 * sizeof(float));
        std::vector<float> source(8, static_cast<float>(i));
        staging.upload(stream, targets.back().data(), std::as_bytes(std::span(source)));
    }
    for (std::size_t i = 0; i < targets.size(); i++) {
        CHECK(first_float(stream, targets[i]) == static_cast<float>(i));
    }
    const std::vector<float> large(9);
    CHECK_THROWS_AS(staging.upload(stream, targets[0].data(), std::as_bytes(std::span(large))),
                    ShapeError);
}

TEST_CASE("cuda device: timers measure the stream, not the host", "[emulated]") {
    Stream stream = Stream::create();
    const DeviceBuffer buffer("test", 64);
    cuda::StreamTimer timer;
    timer.start(stream);
    launch_add_one(stream, buffer.data(), 16);
    timer.stop(stream);
    const double seconds = timer.seconds();
    CHECK(seconds > 0);
    CHECK(seconds < 10);
    const Event untimed = Event::create(EventKind::kOrder);
    CHECK_THROWS_AS(Event::seconds_between(untimed, untimed), CudaError);
}

TEST_CASE("cuda device: errors name the call", "[emulated]") {
    CHECK_NOTHROW(cuda::check(cudaSuccess, "anything"));
    CHECK_THROWS_WITH(cuda::check(cudaErrorInvalidValue, "cudaMemcpyAsync"),
                      Catch::Contains("cudaMemcpyAsync failed with cudaErrorInvalidValue"));
    const Stream stream = Stream::create();
    DCP_LAUNCH(add_one, 1, 2048, 0, stream.get(), nullptr, 0);
    CHECK_THROWS_WITH(
        cuda::check_launch("add_one", stream.get()),
        Catch::Contains("launch of add_one") && Catch::Contains("cudaErrorInvalidConfiguration"));
    CHECK_NOTHROW(cuda::check_launch("the next one", stream.get()));
}

TEST_CASE("cuda device: an arena accounts as on the CPU, and refuses alike", "[emulated]") {
    constexpr std::int64_t kMiB = std::int64_t{1} << 20;
    Arena host(kMiB);
    const std::size_t before = cuda_emu::device_bytes_held();
    Arena device(kMiB, cuda::device_arena_memory(kMiB));
    CHECK(cuda_emu::device_bytes_held() == before + static_cast<std::size_t>(kMiB));
    const auto message = [](Arena& arena) -> std::string {
        const Tensor kept =
            arena.allocate("weights", MemoryCategory::kParameters, DType::kFloat32, {100, 100});
        CHECK(kept);
        try {
            const Arena::Scope scope(arena);
            arena.allocate("x", MemoryCategory::kActivations, DType::kBFloat16, {1000, 100});
            arena.allocate("y", MemoryCategory::kActivations, DType::kBFloat16, {10000, 100});
        } catch (const MemoryBudgetError& error) {
            return error.what();
        }
        return "nothing";
    };
    CHECK(message(device) == message(host));
    CHECK(device.current_bytes() == host.current_bytes());
    CHECK(device.peak_bytes() == host.peak_bytes());
    CHECK(device.peak_bytes(MemoryCategory::kActivations) ==
          host.peak_bytes(MemoryCategory::kActivations));

    Emulation emulation;
    const Arena::Scope scope(device);
    const Tensor tensor = device.allocate("t", MemoryCategory::kWorkspace, DType::kFloat32, {3});
    const std::vector<float> values{1, 2, 3};
    std::vector<float> back(3);
    copy_to_device(emulation.queue(), tensor, std::as_bytes(std::span(values)));
    copy_to_host(emulation.queue(), std::as_writable_bytes(std::span(back)), tensor);
    CHECK(back == values);

    CHECK_THROWS_WITH(cuda::device_arena_memory(std::int64_t{1} << 40),
                      Catch::Contains("memory.budget needs 1.0 TiB"));
    CHECK(cudaGetLastError() == cudaSuccess);
    CHECK(cuda::default_device_budget_bytes() > 0);
}

TEST_CASE("cuda device: what a machine without a GPU is told", "[emulated]") {
    Emulation restores_settings;
    CHECK(cuda::availability().is_usable);
    CHECK(cuda::availability().description == "built in (CUDA 13.0), 1 GPU");
    cuda_emu::config().num_devices = 0;
    CHECK_FALSE(cuda::availability().is_usable);
    CHECK(cuda::availability().description == "built in (CUDA 13.0), but there is no GPU here");
    cuda_emu::config().has_driver = false;
    CHECK_FALSE(cuda::availability().is_usable);
    CHECK(cuda::availability().is_built);
    CHECK(cuda::availability().description ==
          "built in (CUDA 13.0), but there is no NVIDIA driver here");
    CHECK(cudaGetLastError() == cudaSuccess);
    CHECK_THROWS_AS(Stream::create(), CudaError);
    CHECK(cudaGetLastError() == cudaErrorInsufficientDriver);
}

}  // namespace
}  // namespace dcp::test
