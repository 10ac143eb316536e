// What kernels/cuda/ptx.cuh includes in place of inline PTX.
#pragma once

#include "tests/cuda_emu/instructions.hpp"
