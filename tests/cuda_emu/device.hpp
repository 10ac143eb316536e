// What a kernel sees: CUDA's qualifiers, built-in variables and device functions, with CUDA's names
// and meanings. Only what our kernels use is here; a kernel that uses more does not compile, and
// what sm_80 does not have (float reductions by redux.sync, say) is not here either.
#pragma once

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tests/cuda_emu/bfloat16.hpp"
#include "tests/cuda_emu/block.hpp"
#include "tests/cuda_emu/race_check.hpp"
#include "tests/cuda_emu/vector_types.hpp"

#define DCP_CUDA_EMULATED 1
#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
// One block at a time runs on an operating-system thread.
#define __shared__ static thread_local

#define threadIdx (cuda_emu::Block::current()->thread().index)
#define blockIdx (cuda_emu::Block::current()->block_index())
#define blockDim (cuda_emu::Block::current()->block_size())
#define gridDim (cuda_emu::Block::current()->grid_size())

namespace cuda_emu {

inline unsigned this_lane() {
    return Block::current()->thread().linear % kWarpSize;
}

// Every lane of the mask gives `value`; each gets what the lane that it names has given.
template <class T>
T exchange(const char* op, unsigned mask, T value, unsigned from_lane, Location where) {
    static_assert(sizeof(T) <= 16 && std::is_trivially_copyable_v<T>);
    struct Operands {
        T given;
        T received;
        unsigned from;
    } operands{value, value, from_lane};
    {
        const race::Unwatched unwatched;
        Block& block = *Block::current();
        block.thread().operands = &operands;
        block.meet(op, mask, where, [&](Thread* lanes, unsigned present) {
            for (unsigned i = 0; i < kWarpSize; i++) {
                if ((present >> i & 1U) == 0) {
                    continue;
                }
                auto& mine = *static_cast<Operands*>(lanes[i].operands);
                if ((present >> mine.from & 1U) == 0) {
                    block.fail(std::string(op) + " at line " + std::to_string(where.line()) +
                               ": lane " + std::to_string(i) + " reads a lane outside the mask");
                }
                mine.received = static_cast<Operands*>(lanes[mine.from].operands)->given;
            }
        });
    }
    return operands.received;
}

// All lanes of the mask get the combination of what each of them has given.
template <class T, class Combine>
T combine(const char* op, unsigned mask, T value, Combine combine_two, Location where) {
    struct Operands {
        T given;
        T received;
    } operands{value, value};
    {
        const race::Unwatched unwatched;
        Block& block = *Block::current();
        block.thread().operands = &operands;
        block.meet(op, mask, where, [&](Thread* lanes, unsigned present) {
            T result{};
            bool is_first = true;
            for (unsigned i = 0; i < kWarpSize; i++) {
                if ((present >> i & 1U) != 0) {
                    const T given = static_cast<Operands*>(lanes[i].operands)->given;
                    result = is_first ? given : combine_two(result, given);
                    is_first = false;
                }
            }
            for (unsigned i = 0; i < kWarpSize; i++) {
                if ((present >> i & 1U) != 0) {
                    static_cast<Operands*>(lanes[i].operands)->received = result;
                }
            }
        });
    }
    return operands.received;
}

// The shuffles work inside groups of `width` lanes; out of the group means the own value.
inline unsigned group_begin(unsigned width) {
    return this_lane() & ~(width - 1);
}

}  // namespace cuda_emu

using CudaEmuLocation = std::source_location;

inline void __syncthreads(CudaEmuLocation where = CudaEmuLocation::current()) {
    cuda_emu::Block::current()->barrier(false, where);
}
inline int __syncthreads_or(int predicate, CudaEmuLocation where = CudaEmuLocation::current()) {
    return cuda_emu::Block::current()->barrier(predicate != 0, where) > 0 ? 1 : 0;
}
inline int __syncthreads_count(int predicate, CudaEmuLocation where = CudaEmuLocation::current()) {
    return static_cast<int>(cuda_emu::Block::current()->barrier(predicate != 0, where));
}
inline void __syncwarp(unsigned mask = ~0U, CudaEmuLocation where = CudaEmuLocation::current()) {
    cuda_emu::Block::current()->meet(
        "__syncwarp", mask, where, [](cuda_emu::Thread* /*lanes*/, unsigned /*mask*/) {}, true);
}

template <class T>
T __shfl_sync(unsigned mask,
              T value,
              int from,
              int width = 32,
              CudaEmuLocation where = CudaEmuLocation::current()) {
    const auto size = static_cast<unsigned>(width);
    const unsigned lane = cuda_emu::group_begin(size) + (static_cast<unsigned>(from) & (size - 1));
    return cuda_emu::exchange("__shfl_sync", mask, value, lane, where);
}
template <class T>
T __shfl_xor_sync(unsigned mask,
                  T value,
                  int lane_mask,
                  int width = 32,
                  CudaEmuLocation where = CudaEmuLocation::current()) {
    const unsigned self = cuda_emu::this_lane();
    const unsigned lane = self ^ static_cast<unsigned>(lane_mask);
    const unsigned end =
        cuda_emu::group_begin(static_cast<unsigned>(width)) + static_cast<unsigned>(width);
    return cuda_emu::exchange("__shfl_xor_sync", mask, value, lane < end ? lane : self, where);
}
template <class T>
T __shfl_down_sync(unsigned mask,
                   T value,
                   unsigned delta,
                   int width = 32,
                   CudaEmuLocation where = CudaEmuLocation::current()) {
    const unsigned self = cuda_emu::this_lane();
    const unsigned end =
        cuda_emu::group_begin(static_cast<unsigned>(width)) + static_cast<unsigned>(width);
    return cuda_emu::exchange("__shfl_down_sync", mask, value,
                              self + delta < end ? self + delta : self, where);
}

inline unsigned __ballot_sync(unsigned mask,
                              int predicate,
                              CudaEmuLocation where = CudaEmuLocation::current()) {
    const unsigned mine = predicate != 0 ? 1U << cuda_emu::this_lane() : 0U;
    return cuda_emu::combine(
        "__ballot_sync", mask, mine, [](unsigned a, unsigned b) { return a | b; }, where);
}

template <class T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
    return std::atomic_ref<T>(*address).fetch_add(value, std::memory_order_relaxed);
}
inline void __threadfence() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

template <class T>
T __ldg(const T* address) {
    return *address;
}
inline float rsqrtf(float x) {
    return 1.0F / std::sqrt(x);
}
inline float __fdividef(float dividend, float divisor) {
    return dividend / divisor;
}
// The lowest set bit, counted from 1; 0 when there is none.
inline int __ffs(int bits) {
    return __builtin_ffs(bits);
}
inline unsigned __float_as_uint(float value) {
    return std::bit_cast<unsigned>(value);
}
inline float __uint_as_float(unsigned value) {
    return std::bit_cast<float>(value);
}
