#include "tests/cuda_emu/runtime.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tests/cuda_emu/config.hpp"
#include "tests/cuda_emu/fake_device.hpp"

struct CUstream_st {
    std::deque<std::function<void()>> pending;
};

// An event counts: `recorded` records were asked for, `done` of them have happened.
struct CUevent_st {
    bool has_timing = false;
    std::uint64_t recorded = 0;
    std::uint64_t done = 0;
    CUstream_st* stream = nullptr;  // of the last record
    std::chrono::steady_clock::time_point time;
};

namespace cuda_emu {

namespace {

constexpr std::size_t kDefaultSharedBytes = std::size_t{48} << 10;
constexpr int kUninitialized = 0xff;  // NaN in both floating-point types
constexpr std::size_t kAlignment = 256;

struct Device {
    cudaError_t last_error = cudaSuccess;
    std::map<const void*, std::size_t> shared_bytes;  // by kernel
    std::map<void*, std::size_t> device_memory;
    std::map<const void*, std::size_t> pinned_memory;
    std::set<CUstream_st*> streams;
    std::set<CUevent_st*> events;
};
Device& device() {
    static Device the_device;
    return the_device;
}

cudaError_t remember(cudaError_t error) {
    if (error != cudaSuccess) {
        device().last_error = error;
    }
    return error;
}

cudaError_t availability() {
    if (!config().has_driver) {
        return cudaErrorInsufficientDriver;
    }
    return config().num_devices > 0 ? cudaSuccess : cudaErrorNoDevice;
}

void run_next(CUstream_st& stream) {
    if (stream.pending.empty()) {
        throw std::runtime_error("cuda_emu: an event is waited for that its stream never reaches");
    }
    const std::function<void()> operation = std::move(stream.pending.front());
    stream.pending.pop_front();
    operation();
}

void finish(CUstream_st& stream) {
    while (!stream.pending.empty()) {
        run_next(stream);
    }
}

void wait_for(const CUevent_st& event, std::uint64_t record) {
    while (event.done < record) {
        run_next(*event.stream);
    }
}

template <class Map>
std::size_t sum_of(const Map& sizes) {
    std::size_t sum = 0;
    for (const auto& [address, bytes] : sizes) {
        sum += bytes;
    }
    return sum;
}

// Also for addresses inside an allocation.
bool is_pinned(const void* pointer) {
    const auto& pinned = device().pinned_memory;
    auto after = pinned.upper_bound(pointer);
    if (after == pinned.begin()) {
        return false;
    }
    const auto& [begin, bytes] = *--after;
    return static_cast<const char*>(pointer) < static_cast<const char*>(begin) + bytes;
}

void* allocate(std::size_t bytes) {
    const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    void* memory = std::aligned_alloc(kAlignment, rounded);
    if (memory != nullptr) {
        std::memset(memory, kUninitialized, rounded);
    }
    return memory;
}

}  // namespace

void enqueue(cudaStream_t stream, std::function<void()> operation) {
    if (device().streams.count(stream) == 0) {
        throw std::runtime_error(stream == nullptr
                                     ? "cuda_emu: an operation on the default stream"
                                     : "cuda_emu: an operation on a stream that does not exist");
    }
    stream->pending.push_back(std::move(operation));
    if (config().runs_at_once) {
        finish(*stream);
    }
}

void set_last_error(cudaError_t error) {
    device().last_error = error;
}

std::size_t shared_bytes_allowed(const void* kernel) {
    const auto found = device().shared_bytes.find(kernel);
    return found == device().shared_bytes.end() ? kDefaultSharedBytes : found->second;
}

std::size_t device_bytes_held() {
    return sum_of(device().device_memory);
}
std::size_t pinned_bytes_held() {
    return sum_of(device().pinned_memory);
}
int num_streams() {
    return static_cast<int>(device().streams.size());
}
int num_events() {
    return static_cast<int>(device().events.size());
}

}  // namespace cuda_emu

using cuda_emu::config;
using cuda_emu::device;
using cuda_emu::remember;

const char* cudaGetErrorName(cudaError_t error) {
    switch (error) {
        case cudaSuccess:
            return "cudaSuccess";
        case cudaErrorInvalidValue:
            return "cudaErrorInvalidValue";
        case cudaErrorMemoryAllocation:
            return "cudaErrorMemoryAllocation";
        case cudaErrorInvalidConfiguration:
            return "cudaErrorInvalidConfiguration";
        case cudaErrorInsufficientDriver:
            return "cudaErrorInsufficientDriver";
        case cudaErrorNoDevice:
            return "cudaErrorNoDevice";
        case cudaErrorInvalidDevice:
            return "cudaErrorInvalidDevice";
        case cudaErrorInvalidResourceHandle:
            return "cudaErrorInvalidResourceHandle";
        case cudaErrorNotReady:
            return "cudaErrorNotReady";
    }
    return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
    return error == cudaErrorMemoryAllocation ? "out of memory" : cudaGetErrorName(error);
}

cudaError_t cudaGetLastError() {
    return std::exchange(device().last_error, cudaSuccess);
}

cudaError_t cudaDriverGetVersion(int* version) {
    *version = config().has_driver ? 13000 : 0;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
    *version = 13000;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
    if (const cudaError_t error = cuda_emu::availability()) {
        return remember(error);  // the count stays as it was, as with CUDA
    }
    *count = config().num_devices;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int* id) {
    *id = 0;
    return remember(cuda_emu::availability());
}

cudaError_t cudaSetDevice(int id) {
    if (const cudaError_t error = cuda_emu::availability()) {
        return remember(error);
    }
    return remember(id >= 0 && id < config().num_devices ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int /*id*/) {
    *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
    *total_bytes = config().device_memory_bytes;
    *free_bytes = *total_bytes - cuda_emu::device_bytes_held();
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
    for (CUstream_st* stream : device().streams) {
        cuda_emu::finish(*stream);
    }
    return cudaSuccess;
}

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
    if (const cudaError_t error = cuda_emu::availability()) {
        return remember(error);
    }
    *pointer = nullptr;
    if (bytes == 0) {
        return cudaSuccess;
    }
    if (bytes > config().device_memory_bytes - cuda_emu::device_bytes_held() ||
        (*pointer = cuda_emu::allocate(bytes)) == nullptr) {
        return remember(cudaErrorMemoryAllocation);
    }
    device().device_memory[*pointer] = bytes;
    return cudaSuccess;
}

// Waits for the device, as CUDA does.
cudaError_t cudaFree(void* pointer) {
    if (pointer == nullptr) {
        return cudaSuccess;
    }
    const auto found = device().device_memory.find(pointer);
    if (found == device().device_memory.end()) {
        return remember(cudaErrorInvalidValue);
    }
    cudaDeviceSynchronize();
    std::memset(pointer, cuda_emu::kUninitialized, found->second);
    device().device_memory.erase(found);
    std::free(pointer);
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
    if (const cudaError_t error = cuda_emu::availability()) {
        return remember(error);
    }
    *pointer = cuda_emu::allocate(std::max<std::size_t>(bytes, 1));
    if (*pointer == nullptr) {
        return remember(cudaErrorMemoryAllocation);
    }
    device().pinned_memory[*pointer] = bytes;
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void* pointer) {
    if (pointer == nullptr) {
        return cudaSuccess;
    }
    if (device().pinned_memory.erase(pointer) == 0) {
        return remember(cudaErrorInvalidValue);
    }
    cudaDeviceSynchronize();
    std::free(pointer);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(
    void* target, const void* source, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    if (kind == cudaMemcpyHostToDevice && !cuda_emu::is_pinned(source)) {
        const auto* begin = static_cast<const unsigned char*>(source);
        cuda_emu::enqueue(
            stream, [target, staged = std::vector<unsigned char>(begin, begin + bytes)] {
                std::copy(staged.begin(), staged.end(), static_cast<unsigned char*>(target));
            });
        return cudaSuccess;
    }
    cuda_emu::enqueue(stream, [=] { std::memcpy(target, source, bytes); });
    if (kind == cudaMemcpyDeviceToHost && !cuda_emu::is_pinned(target)) {
        cuda_emu::finish(*stream);
    }
    return cudaSuccess;
}

cudaError_t cudaMemcpy2DAsync(void* target,
                              std::size_t target_pitch,
                              const void* source,
                              std::size_t source_pitch,
                              std::size_t width,
                              std::size_t height,
                              cudaMemcpyKind kind,
                              cudaStream_t stream) {
    if (kind != cudaMemcpyDeviceToDevice || width > target_pitch || width > source_pitch) {
        return remember(cudaErrorInvalidValue);
    }
    cuda_emu::enqueue(stream, [=] {
        for (std::size_t row = 0; row < height; row++) {
            std::memcpy(static_cast<char*>(target) + row * target_pitch,
                        static_cast<const char*>(source) + row * source_pitch, width);
        }
    });
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* target, int value, std::size_t bytes, cudaStream_t stream) {
    cuda_emu::enqueue(stream, [=] { std::memset(target, value, bytes); });
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned /*flags*/) {
    if (const cudaError_t error = cuda_emu::availability()) {
        return remember(error);
    }
    *stream = new CUstream_st;
    device().streams.insert(*stream);
    return cudaSuccess;
}

// What is still pending runs to its end, as CUDA has it.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    if (device().streams.count(stream) == 0) {
        return remember(cudaErrorInvalidResourceHandle);
    }
    cuda_emu::finish(*stream);
    device().streams.erase(stream);
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    if (device().streams.count(stream) == 0) {
        return remember(cudaErrorInvalidResourceHandle);
    }
    cuda_emu::finish(*stream);
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
    cuda_emu::enqueue(stream,
                      [event, record = event->recorded] { cuda_emu::wait_for(*event, record); });
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
    if (const cudaError_t error = cuda_emu::availability()) {
        return remember(error);
    }
    *event = new CUevent_st;
    (*event)->has_timing = (flags & cudaEventDisableTiming) == 0;
    device().events.insert(*event);
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    if (device().events.count(event) == 0) {
        return remember(cudaErrorInvalidResourceHandle);
    }
    cuda_emu::wait_for(*event, event->recorded);  // its record would write to it
    device().events.erase(event);
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    event->stream = stream;
    cuda_emu::enqueue(stream, [event, record = ++event->recorded] {
        event->done = record;
        event->time = std::chrono::steady_clock::now();
    });
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    cuda_emu::wait_for(*event, event->recorded);
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    return event->done == event->recorded ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
    if (!begin->has_timing || !end->has_timing || begin->recorded == 0 || end->recorded == 0) {
        return remember(cudaErrorInvalidResourceHandle);
    }
    if (begin->done < begin->recorded || end->done < end->recorded) {
        return cudaErrorNotReady;
    }
    *milliseconds = std::chrono::duration<float, std::milli>(end->time - begin->time).count();
    return cudaSuccess;
}

cudaError_t cuda_emu_set_shared_bytes(const void* kernel, int bytes) {
    if (bytes < 0 || static_cast<std::size_t>(bytes) > config().max_shared_bytes) {
        return remember(cudaErrorInvalidValue);
    }
    device().shared_bytes[kernel] = static_cast<std::size_t>(bytes);
    return cudaSuccess;
}
