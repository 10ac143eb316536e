// Included before any Highway header: the instruction sets that our vector loops are compiled for
// are AVX-512, AVX2 and what every x86-64 processor has. The two sets between the last two would
// double the time to compile for processors of before 2013.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
