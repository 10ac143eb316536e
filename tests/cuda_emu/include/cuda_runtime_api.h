// Found in place of CUDA's header of this name: the runtime calls that host code makes.
#pragma once

#include "tests/cuda_emu/runtime.hpp"
