// The insides of the fake runtime (runtime.hpp) that launches use.
#pragma once

#include <cstddef>
#include <functional>

#include "tests/cuda_emu/runtime.hpp"

namespace cuda_emu {

// Adds an operation to the stream. The default stream does not exist here: std::runtime_error.
void enqueue(cudaStream_t stream, std::function<void()> operation);

void set_last_error(cudaError_t error);

// 48 KiB, unless cudaFuncSetAttribute has said more for this kernel.
std::size_t shared_bytes_allowed(const void* kernel);

// Bytes of device memory held now. Tests of owners compare it before and after.
std::size_t device_bytes_held();
std::size_t pinned_bytes_held();
int num_streams();
int num_events();

}  // namespace cuda_emu
