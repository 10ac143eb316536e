#include "tests/cuda_emu/launch.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "tests/cuda_emu/block.hpp"
#include "tests/cuda_emu/fake_device.hpp"

namespace cuda_emu {

namespace {

struct Launch {
    dim3 grid;
    dim3 threads;
    std::size_t shared_bytes;
    std::function<void()> body;
};

bool is_within_limits(const void* kernel,
                      const dim3& grid,
                      const dim3& threads,
                      std::size_t shared_bytes) {
    const std::size_t per_block = std::size_t{threads.x} * threads.y * threads.z;
    const bool threads_fit = per_block > 0 && per_block <= 1024 && threads.z <= 64;
    const bool grid_fits = grid.x > 0 && grid.x <= 0x7fffffffU && grid.y > 0 && grid.y <= 65535 &&
                           grid.z > 0 && grid.z <= 65535;
    return threads_fit && grid_fits &&
           shared_bytes <= std::min(shared_bytes_allowed(kernel), config().max_shared_bytes);
}

void run_blocks(const Launch& launch) {
    const std::size_t num_blocks = std::size_t{launch.grid.x} * launch.grid.y * launch.grid.z;
    std::atomic<std::size_t> next{0};
    std::exception_ptr error;
    std::mutex error_mutex;
    const auto work = [&](unsigned worker) {
        static thread_local std::unique_ptr<Block> mine;
        if (!mine) {
            mine = std::make_unique<Block>();
        }
        Block::current() = mine.get();
        std::mt19937 random(config().seed + worker);
        try {
            for (std::size_t i = next++; i < num_blocks; i = next++) {
                const uint3 index{static_cast<unsigned>(i % launch.grid.x),
                                  static_cast<unsigned>(i / launch.grid.x % launch.grid.y),
                                  static_cast<unsigned>(i / launch.grid.x / launch.grid.y)};
                mine->run(launch.body, index, launch.grid, launch.threads, launch.shared_bytes,
                          random);
            }
        } catch (...) {
            const std::lock_guard lock(error_mutex);
            if (!error) {
                error = std::current_exception();
            }
            next = num_blocks;
        }
        Block::current() = nullptr;
    };
    const auto workers = static_cast<unsigned>(
        std::min<std::size_t>(static_cast<std::size_t>(std::max(config().workers, 1)), num_blocks));
    if (workers <= 1) {
        work(0);
    } else {
        std::vector<std::jthread> threads;
        for (unsigned i = 0; i < workers; i++) {
            threads.emplace_back(work, i);
        }
    }
    ++config().total.launches;
    if (error) {
        std::rethrow_exception(error);
    }
}

}  // namespace

void enqueue_launch(const void* kernel,
                    dim3 grid,
                    dim3 threads,
                    std::size_t shared_bytes,
                    cudaStream_t stream,
                    std::function<void()> body) {
    if (!is_within_limits(kernel, grid, threads, shared_bytes)) {
        set_last_error(cudaErrorInvalidConfiguration);
        return;
    }
    enqueue(stream, [launch = Launch{grid, threads, shared_bytes, std::move(body)}] {
        run_blocks(launch);
    });
}

}  // namespace cuda_emu
