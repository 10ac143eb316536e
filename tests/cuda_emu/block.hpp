// One block of CUDA threads on one operating-system thread. Every CUDA thread is a fiber that runs
// until it reaches a barrier or a warp instruction; there it waits until those it waits for have
// come. Which fiber runs next is the schedule's choice (config.hpp).
//
// Errors end the launch with std::runtime_error: a deadlock, lanes that meet in different
// instructions, a copy left in flight. All fibers are unwound before it is thrown.
#pragma once

#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <random>
#include <source_location>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/cuda_emu/config.hpp"
#include "tests/cuda_emu/function_ref.hpp"
#include "tests/cuda_emu/vector_types.hpp"
#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>

namespace cuda_emu {

using Location = std::source_location;
inline constexpr unsigned kWarpSize = 32;
inline constexpr unsigned kFullMask = 0xffffffffU;

// One cp.async of one thread, in flight until its group is waited for.
struct AsyncCopy {
    unsigned char* target;
    const unsigned char* source;
    unsigned bytes;
    unsigned source_bytes;
    unsigned line;
    alignas(16) unsigned char data[16];
};

enum class ThreadState : unsigned char { kReady, kAtBarrier, kInWarp, kDone };

struct Thread {
    uint3 index{};        // threadIdx
    unsigned linear = 0;  // position in the block; warps are 32 neighbours
    ThreadState state = ThreadState::kReady;
    bool predicate = false;  // of __syncthreads_count and its kind

    // The warp instruction in which this lane waits: its name, partners, source line, operands.
    const char* op = nullptr;
    unsigned mask = 0;
    unsigned line = 0;
    void* operands = nullptr;

    std::vector<AsyncCopy> copies;      // issued, oldest first
    std::vector<unsigned> copy_groups;  // sizes of the committed groups, oldest first
    unsigned open_copies = 0;           // the last of `copies`, not committed yet

    boost::context::fiber self;
    boost::context::fiber scheduler;  // where it returns to when it waits
    boost::context::stack_context stack{};
    void* race_fiber = nullptr;
};

class Block {
public:
    Block();
    ~Block();
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

    // The block that the calling operating-system thread runs.
    static Block*& current();

    // Runs `body` once for each thread of the block, to the end.
    void run(FunctionRef<void()> body,
             uint3 block_index,
             dim3 grid,
             dim3 threads,
             std::size_t shared_bytes,
             std::mt19937& random);

    // What follows is called by the threads of the block.
    Thread& thread() { return *running_; }
    uint3 block_index() const { return block_index_; }
    dim3 block_size() const { return block_size_; }
    dim3 grid_size() const { return grid_size_; }
    unsigned char* shared() { return shared_.get(); }
    std::size_t shared_bytes() const { return shared_bytes_; }
    Counters& counters() { return counters_; }

    // __syncthreads: every living thread of the block must come, and to the same line. Returns for
    // how many of them the predicate held.
    unsigned barrier(bool predicate, Location where);

    // A warp instruction: the lanes of `mask` meet, the last one calls act(first thread of the
    // warp, mask of the lanes that exist) for all of them. Only __syncwarp orders memory.
    void meet(const char* op,
              unsigned mask,
              Location where,
              FunctionRef<void(Thread*, unsigned)> act,
              bool orders_memory = false);

    [[noreturn]] void fail(const std::string& message);

private:
    // Lanes that have arrived at a warp instruction with this mask.
    struct Meeting {
        unsigned mask = 0;
        unsigned arrived = 0;
        unsigned generation = 0;
    };
    struct Unwind {};  // thrown in a waiting thread when another one has failed

    void prepare_threads();
    void start(Thread& thread, FunctionRef<void()> body);
    bool step(unsigned index, FunctionRef<void()> body);
    bool step_warp(unsigned warp, bool backwards, FunctionRef<void()> body);
    bool pass(FunctionRef<void()> body, std::mt19937& random);
    void wait();
    void release_barrier();
    void report_deadlock();
    void unwind_all();
    Meeting& meeting(unsigned warp, unsigned mask);

    std::vector<Thread> threads_;
    std::vector<unsigned> warp_order_;
    std::vector<std::vector<Meeting>> meetings_;  // by warp
    std::unique_ptr<unsigned char[]> shared_;
    std::size_t shared_bytes_ = 0;
    Counters counters_;
    Thread* running_ = nullptr;
    unsigned num_threads_ = 0;
    unsigned num_alive_ = 0;
    uint3 block_index_{};
    dim3 block_size_;
    dim3 grid_size_;
    std::exception_ptr error_;
    boost::context::fixedsize_stack stacks_;

    unsigned num_waiting_ = 0;  // at the barrier
    unsigned num_true_ = 0;
    unsigned barrier_result_ = 0;
    unsigned barrier_line_ = 0;
    unsigned barrier_phase_ = 0;

    void* race_scheduler_ = nullptr;
    char barrier_tokens_[2]{};
    char end_token_ = 0;
};

}  // namespace cuda_emu
