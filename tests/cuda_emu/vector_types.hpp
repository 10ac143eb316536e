// CUDA's small vector types, with the sizes and alignments that the CUDA documentation gives them.
// The names are CUDA's, since kernels use them.
#pragma once

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x, y, z;
    // NOLINTNEXTLINE(google-explicit-constructor): a launch takes a plain number of blocks
    constexpr dim3(unsigned x_size = 1, unsigned y_size = 1, unsigned z_size = 1)
        : x(x_size), y(y_size), z(z_size) {}
};

struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) int2 {
    int x, y;
};
struct alignas(16) int4 {
    int x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

constexpr float2 make_float2(float x, float y) {
    return {x, y};
}
constexpr float4 make_float4(float x, float y, float z, float w) {
    return {x, y, z, w};
}
constexpr int2 make_int2(int x, int y) {
    return {x, y};
}
constexpr int4 make_int4(int x, int y, int z, int w) {
    return {x, y, z, w};
}
constexpr uint2 make_uint2(unsigned x, unsigned y) {
    return {x, y};
}
constexpr uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
    return {x, y, z, w};
}
