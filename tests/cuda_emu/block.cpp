#include "tests/cuda_emu/block.hpp"

#include <algorithm>
#include <bit>
#include <mutex>
#include <numeric>
#include <stdexcept>

#include "tests/cuda_emu/race_check.hpp"
#include <boost/context/preallocated.hpp>

namespace cuda_emu {

namespace bc = boost::context;

void Counters::add(const Counters& other) {
    launches += other.launches;
    blocks += other.blocks;
    mma += other.mma;
    ldmatrix += other.ldmatrix;
    bank_conflicts += other.bank_conflicts;
    cp_async += other.cp_async;
    switches += other.switches;
}

Config& config() {
    static Config the_config;
    return the_config;
}

Block::Block() : stacks_(config().stack_bytes) {}

Block::~Block() {
    for (Thread& thread : threads_) {
        thread.self = {};
        if (thread.stack.sp != nullptr) {
            stacks_.deallocate(thread.stack);
        }
    }
}

Block*& Block::current() {
    static thread_local Block* block = nullptr;
    return block;
}

void Block::fail(const std::string& message) {
    throw std::runtime_error("cuda_emu: " + message + " (block " + std::to_string(block_index_.x) +
                             "," + std::to_string(block_index_.y) + "," +
                             std::to_string(block_index_.z) + ", thread " +
                             std::to_string(running_ != nullptr ? running_->linear : 0) + ")");
}

// The running thread gives way to the scheduler and comes back when it is ready again.
void Block::wait() {
    ++counters_.switches;
    race::switch_to(race_scheduler_);
    running_->scheduler = std::move(running_->scheduler).resume();
    if (error_) {
        throw Unwind{};
    }
}

void Block::release_barrier() {
    barrier_result_ = num_true_;
    for (unsigned i = 0; i < num_threads_; i++) {
        if (threads_[i].state == ThreadState::kAtBarrier) {
            threads_[i].state = ThreadState::kReady;
        }
    }
    num_waiting_ = 0;
    num_true_ = 0;
    ++barrier_phase_;
}

unsigned Block::barrier(bool predicate, Location where) {
    const race::Unwatched unwatched;
    char* token = &barrier_tokens_[barrier_phase_ % 2];
    race::release(token);
    if (num_waiting_ == 0) {
        barrier_line_ = where.line();
    } else if (barrier_line_ != where.line()) {
        fail("__syncthreads reached at line " + std::to_string(where.line()) +
             " while others wait at line " + std::to_string(barrier_line_));
    }
    num_true_ += predicate ? 1 : 0;
    if (++num_waiting_ == num_alive_) {
        release_barrier();
    } else {
        running_->state = ThreadState::kAtBarrier;
        running_->line = where.line();
        wait();
    }
    race::acquire(token);
    return barrier_result_;
}

Block::Meeting& Block::meeting(unsigned warp, unsigned mask) {
    std::vector<Meeting>& of_warp = meetings_[warp];
    const auto found = std::find_if(of_warp.begin(), of_warp.end(),
                                    [&](const Meeting& m) { return m.mask == mask; });
    return found != of_warp.end() ? *found : of_warp.emplace_back(Meeting{mask, 0, 0});
}

void Block::meet(const char* op,
                 unsigned mask,
                 Location where,
                 FunctionRef<void(Thread*, unsigned)> act,
                 bool orders_memory) {
    const race::Unwatched unwatched;
    const unsigned lane = running_->linear % kWarpSize;
    const unsigned warp = running_->linear / kWarpSize;
    if ((mask >> lane & 1U) == 0) {
        fail(std::string(op) + ": the caller is not in its own mask");
    }
    const unsigned existing = std::min(kWarpSize, num_threads_ - warp * kWarpSize);
    mask &= existing == kWarpSize ? kFullMask : (1U << existing) - 1;
    Thread* const lanes = &threads_[std::size_t{warp} * kWarpSize];
    running_->op = op;
    running_->mask = mask;
    running_->line = where.line();
    Meeting& here = meeting(warp, mask);
    // Two addresses of its own for every mask, used in turn: they only name an order to the
    // sanitizer.
    void* const token =
        reinterpret_cast<char*>(lanes) + 2 * std::size_t{mask % 31} + here.generation % 2;
    if (orders_memory) {
        race::release(token);
    }
    if (++here.arrived < static_cast<unsigned>(std::popcount(mask))) {
        running_->state = ThreadState::kInWarp;
        wait();
        if (orders_memory) {
            race::acquire(token);
        }
        return;
    }
    here.arrived = 0;
    ++here.generation;
    if (orders_memory) {
        race::acquire(token);
    }
    for (unsigned i = 0; i < kWarpSize; i++) {
        const Thread& other = lanes[i];
        if ((mask >> i & 1U) != 0 &&
            (other.op != op || other.mask != mask || other.line != where.line())) {
            fail(std::string(op) + " at line " + std::to_string(where.line()) + ": lane " +
                 std::to_string(i) + " is in " + other.op + " at line " +
                 std::to_string(other.line));
        }
    }
    act(lanes, mask);
    for (unsigned i = 0; i < kWarpSize; i++) {
        if ((mask >> i & 1U) != 0) {
            lanes[i].state = ThreadState::kReady;
        }
    }
}

void Block::prepare_threads() {
    if (threads_.size() < num_threads_) {
        threads_.resize(num_threads_);
    }
    for (unsigned i = 0; i < num_threads_; i++) {
        Thread& thread = threads_[i];
        thread.linear = i;
        thread.index = {i % block_size_.x, i / block_size_.x % block_size_.y,
                        i / block_size_.x / block_size_.y};
        thread.state = ThreadState::kReady;
        thread.self = {};
        thread.copies.clear();
        thread.copy_groups.clear();
        thread.open_copies = 0;
        thread.race_fiber = race::make_fiber();
        if (thread.stack.sp == nullptr) {
            thread.stack = stacks_.allocate();
        }
    }
}

void Block::start(Thread& thread, FunctionRef<void()> body) {
    struct KeepStack {
        void deallocate(bc::stack_context& /*stack*/) {}
    };
    // Stacks are powers of two apart: without a shift of its own for each of them, all fibers would
    // fight for the same sets of the cache.
    const std::size_t shift = thread.linear % 64 * (5 * std::size_t{64});
    const bc::preallocated place(static_cast<char*>(thread.stack.sp) - shift,
                                 thread.stack.size - shift, thread.stack);
    thread.self = bc::fiber(
        std::allocator_arg, place, KeepStack{}, [this, &thread, body](bc::fiber&& scheduler) {
            thread.scheduler = std::move(scheduler);
            try {
                body();
                const race::Unwatched unwatched;
                if (!thread.copies.empty()) {
                    fail("a thread ends with a cp.async in flight, issued at line " +
                         std::to_string(thread.copies[0].line));
                }
            } catch (const Unwind&) {  // another thread has failed: its error is reported
            } catch (...) {
                if (!error_) {
                    error_ = std::current_exception();
                }
            }
            void* home = nullptr;
            {
                const race::Unwatched unwatched;
                thread.state = ThreadState::kDone;
                race::release(&end_token_);
                home = race_scheduler_;
            }
            race::switch_to(home);
            return std::move(thread.scheduler);
        });
}

// Lets one thread run until it waits or ends; false when it is not ready.
bool Block::step(unsigned index, FunctionRef<void()> body) {
    Thread& thread = threads_[index];
    if (thread.state != ThreadState::kReady) {
        return false;
    }
    running_ = &thread;
    if (!thread.self) {
        if (error_) {
            thread.state = ThreadState::kDone;
            --num_alive_;
            return true;
        }
        start(thread, body);
    }
    race::switch_to(thread.race_fiber);
    thread.self = std::move(thread.self).resume();
    if (thread.state == ThreadState::kDone) {
        --num_alive_;
        if (num_waiting_ > 0 && num_waiting_ == num_alive_) {
            release_barrier();  // threads that have ended do not keep the others waiting
        }
    }
    if (error_) {
        unwind_all();
    }
    return true;
}

// Lets a warp run as far as it can without the others.
bool Block::step_warp(unsigned warp, bool backwards, FunctionRef<void()> body) {
    const unsigned begin = warp * kWarpSize;
    const unsigned count = std::min(num_threads_ - begin, kWarpSize);
    bool moved = false;
    for (bool again = true; again; moved |= again) {
        again = false;
        for (unsigned i = 0; i < count; i++) {
            again |= step(begin + (backwards ? count - 1 - i : i), body);
        }
    }
    return moved;
}

// One round of the schedule; false when nobody could move.
bool Block::pass(FunctionRef<void()> body, std::mt19937& random) {
    bool moved = false;
    const Schedule schedule = config().schedule;
    if (schedule == Schedule::kForward || schedule == Schedule::kReverse) {
        for (unsigned i = 0; i < num_threads_; i++) {
            moved |= step(schedule == Schedule::kForward ? i : num_threads_ - 1 - i, body);
        }
        return moved;
    }
    const bool is_unfair = schedule == Schedule::kUnfair;
    bool backwards = false;
    if (is_unfair) {
        std::shuffle(warp_order_.begin(), warp_order_.end(), random);
        backwards = (random() & 1U) != 0;
    }
    for (const unsigned warp : warp_order_) {
        moved |= step_warp(warp, backwards, body);
        if (is_unfair && moved && random() % 2 != 0) {
            break;
        }
    }
    return moved;
}

// Wakes every fiber: wait() throws in it, since there is an error.
void Block::unwind_all() {
    for (unsigned i = 0; i < num_threads_; i++) {
        if (threads_[i].state != ThreadState::kDone) {
            threads_[i].state = ThreadState::kReady;
        }
    }
}

void Block::report_deadlock() {
    std::string message = "deadlock:";
    const auto first = [&](ThreadState state) {
        const auto found = std::find_if(threads_.begin(), threads_.begin() + num_threads_,
                                        [&](const Thread& t) { return t.state == state; });
        return found == threads_.begin() + num_threads_ ? nullptr : &*found;
    };
    if (const Thread* thread = first(ThreadState::kAtBarrier)) {
        message += " thread " + std::to_string(thread->linear) + " at __syncthreads, line " +
                   std::to_string(thread->line) + ";";
    }
    if (const Thread* thread = first(ThreadState::kInWarp)) {
        message += " thread " + std::to_string(thread->linear) + " in " + thread->op + ", line " +
                   std::to_string(thread->line) + ";";
    }
    message.back() = '.';
    try {
        fail(message);
    } catch (...) {
        error_ = std::current_exception();
    }
    unwind_all();
}

void Block::run(FunctionRef<void()> body,
                uint3 block_index,
                dim3 grid,
                dim3 threads,
                std::size_t shared_bytes,
                std::mt19937& random) {
    const race::Unwatched unwatched;
    block_index_ = block_index;
    grid_size_ = grid;
    block_size_ = threads;
    num_threads_ = threads.x * threads.y * threads.z;
    num_alive_ = num_threads_;
    num_waiting_ = 0;
    num_true_ = 0;
    error_ = nullptr;
    running_ = nullptr;
    counters_ = {};
    counters_.blocks = 1;
    race_scheduler_ = race::this_fiber();
    const unsigned num_warps = (num_threads_ + kWarpSize - 1) / kWarpSize;
    meetings_.assign(num_warps, {});
    warp_order_.resize(num_warps);
    std::iota(warp_order_.begin(), warp_order_.end(), 0U);
    // A block of its own size each time, so that the address sanitizer sees its end; NaN, so that
    // reading before writing shows.
    shared_bytes_ = shared_bytes;
    shared_ = std::make_unique_for_overwrite<unsigned char[]>(shared_bytes);
    std::memset(shared_.get(), 0xff, shared_bytes);
    prepare_threads();
    while (num_alive_ > 0) {
        if (!pass(body, random) && !error_) {
            report_deadlock();
        }
    }
    for (unsigned i = 0; i < num_threads_; i++) {
        race::destroy_fiber(threads_[i].race_fiber);
    }
    race::acquire(&end_token_);
    running_ = nullptr;
    {
        static std::mutex mutex;
        const std::lock_guard lock(mutex);
        config().total.add(counters_);
    }
    if (error_) {
        std::rethrow_exception(error_);
    }
}

}  // namespace cuda_emu
