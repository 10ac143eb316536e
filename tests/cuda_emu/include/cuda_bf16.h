// Found in place of CUDA's header of this name where kernels are compiled for the emulator.
#pragma once

#include "tests/cuda_emu/bfloat16.hpp"
