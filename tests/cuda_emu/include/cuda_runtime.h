// Found in place of CUDA's header of this name where kernels are compiled for the emulator.
#pragma once

#include "tests/cuda_emu/device.hpp"
#include "tests/cuda_emu/launch.hpp"
#include "tests/cuda_emu/runtime.hpp"
