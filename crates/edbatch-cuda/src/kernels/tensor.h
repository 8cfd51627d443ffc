// Operands that are rounded to TF32 (10-bit mantissa) or bf16 (8-bit), and products of them on
// tensor cores. A source defines `TF32` or `BF16` first, or neither: then products are exact.
//
// TF32 is rounded to nearest, ties away from zero; bf16 to nearest, ties to even, and magnitudes
// below 2⁻¹²⁶ to zero, as on the CPU. Products of operands are exact in a float, and sums are
// floats. The order in which a device adds the products of a step is unspecified, so bits depend on
// the device. But each sum is the same chain of steps in all tiles, so its bits do not depend on
// other rows and columns.
//
//     TF32: |sum - Σ x w|  ≤  (2⁻¹⁰ + 2⁻²² + depth · 2⁻²²) · Σ |x w|
//     bf16: |sum - Σ x w|  ≤  (2⁻⁷ + 2⁻¹⁶ + depth · 2⁻²²) · Σ |x w|
//
// The first two terms come from rounding both operands, each by at most 2⁻¹¹ or 2⁻⁸ of its value.
// The last one comes from additions that may truncate instead of rounding.
#pragma once
#include "block.h"

#if defined(TF32) || defined(BF16)
#define TENSOR
#endif

// The elements of a word of packed weights, the terms of a step, and its words.
#ifdef BF16
enum : u32 { OF_WORD = 2 };
#else
enum : u32 { OF_WORD = 1 };
#endif
enum : u32 { STEP_WORDS = 8, STEP = STEP_WORDS * OF_WORD };

#ifndef TENSOR

DEVICE float rounded(float x) { return x; }
DEVICE float word(float x, float) { return x; }

#else

#ifdef __CUDACC_RTC__

DEVICE u32 tf32(float x) {
    u32 rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(x));
    return rounded;
}

// Two elements as bf16, the first in the lower half.
DEVICE u32 pair(float lower, float upper) {
    u32 both;
    asm("mul.rn.ftz.f32 %0, %0, 0f3F800000;" : "+f"(lower));
    asm("mul.rn.ftz.f32 %0, %0, 0f3F800000;" : "+f"(upper));
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(upper), "f"(lower));
    return both;
}

#else

DEVICE u32 tf32(float x) {
    // Infinity and NaN are not rounded.
    if ((bits(x) & 0x7f800000u) == 0x7f800000u) return bits(x);
    return (bits(x) + 0x1000u) & ~0x1fffu;
}

DEVICE u32 bf16(float x) {
    u32 own = bits(x), size = own & 0x7fffffffu;
    if (size > 0x7f800000u) return 0x7fff;
    return size < 0x00800000u ? own >> 31 << 15 : (own + 0x7fff + (own >> 16 & 1)) >> 16;
}
DEVICE u32 pair(float lower, float upper) { return bf16(upper) << 16 | bf16(lower); }

#endif

// The nearest TF32 or bf16 as a float.
DEVICE float rounded(float x) {
#ifdef BF16
    return from_bits(pair(0.0f, x));
#else
    return from_bits(tf32(x));
#endif
}

// The word of a term, or of two in bf16, as a float.
DEVICE float word(float first, float second) {
    return OF_WORD == 1 ? rounded(first) : from_bits(pair(first, second));
}

// A thread's sums of a tile of 16 columns and 8 rows: with g = lane / 4 and i = lane % 4, columns g
// and g + 8 of rows 2 i and 2 i + 1.
struct TensorSums {
    float of[4];
    static DEVICE u32 column(u32 lane, u32 n) { return lane / 4 + n / 2 * 8; }
    static DEVICE u32 row(u32 lane, u32 n) { return lane % 4 * 2 + n % 2; }
};

#ifdef __CUDACC_RTC__

// Loads four or two matrices of 8 rows of 16 bytes from shared memory, for a warp: lane l has the
// address of row l % 8 of matrix l / 8, if there is one, and gets word l % 4 of row l / 4 of each.
DEVICE void matrices(u32 (&to)[4], const float* from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"((u32)__cvta_generic_to_shared(from)) : "memory");
}
DEVICE void matrices(u32 (&to)[2], const float* from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(to[0]), "=r"(to[1])
                 : "r"((u32)__cvta_generic_to_shared(from)) : "memory");
}

DEVICE void add_products(TensorSums& sums, const u32 (&a)[4], u32 b0, u32 b1) {
#ifdef BF16
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
#else
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, "
#endif
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums.of[0]), "+f"(sums.of[1]), "+f"(sums.of[2]), "+f"(sums.of[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Adds a step to the tiles of C times 16 columns and R times 8 rows, where R is 1 or 2. The step's
// weights are words [2][across][4] in shared memory, from the first column of the tiles on. `x` is
// the step's first element of the first row, in words if they are ROUNDED, else in floats; rows are
// `apart` floats apart. The tiles have `rows` rows, and copies of the last one: what else is in
// shared memory may not be rounded. All threads of the warp must call it.
template <bool ROUNDED, u32 C, u32 R>
DEVICE void add_step(TensorSums (&sums)[C][R], u32 lane, const float* w, u32 across,
                     const float* x, u32 apart, u32 rows) {
    u32 a[C][4], b[2 * R];
#pragma unroll
    for (u32 c = 0; c < C; ++c) matrices(a[c], w + 4 * (lane / 16 * across + 16 * c + lane % 16));
    if constexpr (ROUNDED || OF_WORD == 1) {
        u32 row = lane / 16 * 8 + lane % 8;
        matrices(b, x + (row < rows ? row : rows - 1) * apart + lane / 8 % 2 * 4);
#pragma unroll
        for (u32 n = 0; n < 2 * R; ++n) b[n] = ROUNDED ? b[n] : bits(rounded(from_bits(b[n])));
    } else {
#pragma unroll
        for (u32 n = 0; n < 2 * R; ++n) {
            float own[2];
            load(own, x + (n / 2 * 8 + lane / 4) * apart + n % 2 * 8 + lane % 4 * 2);
            b[n] = bits(word(own[0], own[1]));
        }
    }
#pragma unroll
    for (u32 c = 0; c < C; ++c)
#pragma unroll
        for (u32 r = 0; r < R; ++r) add_products(sums[c][r], a[c], b[2 * r], b[2 * r + 1]);
}

#else

// The same on the host, for the sums of one thread, in order of k.
template <bool ROUNDED, u32 C, u32 R>
DEVICE void add_step(TensorSums (&sums)[C][R], u32 lane, const float* w, u32 across,
                     const float* x, u32 apart, u32 rows) {
    for (u32 n = 0; n < 4 * C * R; ++n) {
        u32 c = n / (4 * R), r = n / 4 % R * 8 + TensorSums::row(lane, n % 4);
        const float* row = x + r * apart;
        if (r >= rows) continue;
        for (u32 k = 0; k < STEP; ++k) {
            u32 word = k / OF_WORD, column = 16 * c + TensorSums::column(lane, n % 4);
            auto element = [=](float of) {
                return from_bits(OF_WORD == 1 ? bits(of) : bits(of) >> 16 * (k % 2) << 16);
            };
            float own = element(w[4 * (word / 4 * across + column) + word % 4]);
            float other = ROUNDED ? element(row[word]) : rounded(row[k]);
            float& sum = sums[c][r / 8].of[n % 4];
            sum = fma_(own, other, sum);
        }
    }
}

#endif
#endif
