// Included before any Highway header: our vector loops are compiled for AVX-512, AVX2 and, one
// element at a time, for every older x86-64. The sets between would double the time to compile for
// processors of before 2013.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
