// The rotation of kernels/rope.hpp for eight pairs of columns in registers, wherever they came
// from.
#pragma once

#include "kernels/cuda/rows.cuh"

namespace dcp::kernels::cuda {

struct RotationTable {
    const std::int32_t* positions = nullptr;
    Rows cos_PD;  // data null: no rotation
    Rows sin_PD;
    float sign = 1;  // of the sines; -1 turns back
};

// a: columns i .. i + 7 of the lower half of a head of token `token`, b: those of the upper half;
// half: columns of half a head.
__device__ __forceinline__ void rotate(const RotationTable& table,
                                       std::int64_t token,
                                       int i,
                                       int half,
                                       float (&a)[kVector],
                                       float (&b)[kVector]) {
    const std::int64_t position = table.positions[token];
    float cosine[kVector];
    float sine[kVector];
    load_vector(table.cos_PD, position, i, half, cosine);
    load_vector(table.sin_PD, position, i, half, sine);
#pragma unroll
    for (int e = 0; e < kVector; e++) {
        const float turned = table.sign * sine[e];
        const float first = a[e] * cosine[e] - b[e] * turned;
        b[e] = b[e] * cosine[e] + a[e] * turned;
        a[e] = first;
    }
}

}  // namespace dcp::kernels::cuda
