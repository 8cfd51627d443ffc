// Functions of a float with the same operations as `kernels/lanewise.rs` of `edbatch-runtime`,
// which explains the formulas. Results have the same bits as on CPUs with fused multiply-adds.
#pragma once
#include "block.h"

// The minimum or maximum, or NaN if `x` is NaN. `bound` must not be NaN.
DEVICE float at_most(float bound, float x) { return bound < x ? bound : x; }
DEVICE float at_least(float bound, float x) { return bound > x ? bound : x; }
DEVICE float bounded(float low, float x, float high) { return at_least(low, at_most(high, x)); }

// c - a · b, rounded once.
DEVICE float neg_fma(float a, float b, float c) { return fma_(-a, b, c); }

// Adding 1.5 · 2²³ to a small float leaves the nearest integer in the low bits. `ROUNDING` also
// adds the exponent's bias, 127.
constexpr float TO_ONES = 12582912.0f;
constexpr float ROUNDING = 12583039.0f;
constexpr float LOG2_E = 1.44269504088896340736f;
// ln 2 in two parts. The first has few mantissa bits, so its product with n is exact.
constexpr float LN_2_HIGH = 0.6933594f;
constexpr float LN_2_LOW = -2.1219444e-4f;

// The larger or the smaller number: NaN if one is NaN, `a` if they are equal.
DEVICE float larger(float a, float b) { return b != b || a < b ? b : a; }
DEVICE float smaller(float a, float b) { return b != b || b < a ? b : a; }

// 1 if `a` is the larger number, 0 if `b` is, else ½.
DEVICE float share_of_larger(float a, float b) {
    float share = a < b ? 0.0f : 0.5f;
    return b < a ? 1.0f : share;
}

// g times the slope of a function whose value is y.
DEVICE float slope_of_sigmoid(float g, float y) { return mul(g, mul(sub(1.0f, y), y)); }
DEVICE float slope_of_tanh(float g, float y) { return mul(g, sub(1.0f, mul(y, y))); }
DEVICE float slope_of_relu(float g, float y) { return 0.0f < y ? g : 0.0f; }

DEVICE float relu_(float x) { return at_least(0.0f, x); }

DEVICE float power_of_two(float shifted) { return from_bits(bits(shifted) << 23); }

DEVICE float exp_(float x) {
    x = bounded(-104.0f, x, 89.0f);
    float shifted = fma_(x, LOG2_E, ROUNDING);
    float n = sub(shifted, ROUNDING);
    float r = neg_fma(n, LN_2_HIGH, x);
    r = neg_fma(n, LN_2_LOW, r);
    float tail = 1.9875691e-4f;
    tail = fma_(tail, r, 1.3981999e-3f);
    tail = fma_(tail, r, 8.333452e-3f);
    tail = fma_(tail, r, 4.1665796e-2f);
    tail = fma_(tail, r, 1.6666665e-1f);
    tail = fma_(tail, r, 0.5f);
    float e = add(fma_(mul(r, r), tail, r), 1.0f);
    float half = fma_(n, 0.5f, ROUNDING);
    float rest = add(sub(n, sub(half, ROUNDING)), ROUNDING);
    return mul(mul(e, power_of_two(half)), power_of_two(rest));
}

DEVICE float erf_(float x) {
    constexpr u32 SIGN = 1u << 31;
    float size = at_most(3.95f, from_bits(bits(x) & ~SIGN));
    float square = mul(x, x);
    float p = 8.36012e-5f;
    p = fma_(p, square, -8.140964e-4f);
    p = fma_(p, square, 5.200945e-3f);
    p = fma_(p, square, -2.6859395e-2f);
    p = fma_(p, square, 0.112836964f);
    p = fma_(p, square, -0.37612635f);
    p = fma_(p, square, 0.12837917f);
    float q = -4.430902e-7f;
    q = fma_(q, size, -1.5415382e-5f);
    q = fma_(q, size, 4.0332662e-4f);
    q = fma_(q, size, -4.075687e-3f);
    q = fma_(q, size, 2.4940795e-2f);
    q = fma_(q, size, -0.10807051f);
    q = fma_(q, size, -0.6334974f);
    q = fma_(q, size, -1.1294544f);
    q = fma_(q, size, 1.6423702e-4f);
    float far = sub(1.0f, exp_(q));
    far = from_bits(bits(far) | (bits(x) & SIGN));
    return 0.9277f < size ? far : fma_(p, x, x);
}

DEVICE float sigmoid_(float x) {
    // Static, and so in device memory: an indexed local array would be in each thread's stack.
    static const float POWERS[8] = {0.5f,        0.5452539f, 0.59460354f, 0.6484198f,
                                    0.70710677f, 0.7711054f, 0.8408964f,  0.917004f};
    constexpr float A = -4.000259f, BETA = 3.0001295f;
    x = bounded(-89.0f, x, 80.0f);
    float shifted = neg_fma(x, 8.0f * LOG2_E, TO_ONES);
    float n = sub(shifted, TO_ONES);
    float r = fma_(n, LN_2_HIGH / 8.0f, x);
    r = fma_(n, LN_2_LOW / 8.0f, r);
    u32 k = bits(shifted) & 7;
    float power = from_bits(bits(POWERS[k]) - (k << 20) + (bits(shifted) << 20));
    float below = add(r, BETA);
    float above = fma_(add(r, A), r, 2.0f * BETA);
    return div_(below, fma_(power, above, below));
}

DEVICE float tanh_(float x) {
    static const float T[16] = {0.0f,        0.50983f,    0.8093011f,  0.93382806f,
                                0.9780261f,  0.9928128f,  0.997661f,   0.99924004f,
                                0.99975324f, 0.9999199f,  0.999974f,   0.99999154f,
                                0.99999726f, 0.9999991f,  0.9999997f,  1.0f};
    constexpr float STEP = 9.0f / 16.0f;
    constexpr u32 SIGN = 1u << 31;
    float size = at_most(15.0f * STEP, from_bits(bits(x) & ~SIGN));
    float shifted = fma_(size, 1.0f / STEP, TO_ONES);
    float t = T[bits(shifted) & 15];
    float b = neg_fma(sub(shifted, TO_ONES), STEP, size);
    float square = mul(b, b);
    float d = fma_(fma_(-2.1991117e-2f, square, 0.33332768f), square, 1.0f);
    float quotient = div_(fma_(t, d, b), fma_(t, b, d));
    // Copies the sign bit: a comparison with zero would lose the sign of -0.
    return from_bits(bits(quotient) | (bits(x) & SIGN));
}

DEVICE float log_(float x) {
    constexpr float LEAST_NORMAL = 1.17549435e-38f, GREATEST = 3.40282347e38f;
    constexpr float SQRT_2 = 1.41421356237309504880f;
    bool tiny = x < LEAST_NORMAL;
    float normal = tiny ? mul(x, 8388608.0f) : x;
    float e = sub((float)((int)(bits(normal) >> 23) - 127), tiny ? 23.0f : 0.0f);
    float m = from_bits((bits(normal) & 0x007fffffu) | (127u << 23));
    bool large = SQRT_2 < m;
    m = large ? mul(m, 0.5f) : m;
    e = add(e, large ? 1.0f : 0.0f);

    float f = sub(m, 1.0f);
    float square = mul(f, f);
    float p = 7.0376836e-2f;
    p = fma_(p, f, -1.151461e-1f);
    p = fma_(p, f, 1.1676999e-1f);
    p = fma_(p, f, -1.2420141e-1f);
    p = fma_(p, f, 1.4249323e-1f);
    p = fma_(p, f, -1.6668058e-1f);
    p = fma_(p, f, 2.0000715e-1f);
    p = fma_(p, f, -2.4999994e-1f);
    p = fma_(p, f, 3.333333e-1f);
    float y = mul(mul(f, square), p);
    y = fma_(e, LN_2_LOW, y);
    y = neg_fma(square, 0.5f, y);
    y = fma_(e, LN_2_HIGH, add(f, y));

    // ∞ and NaN give themselves, 0 gives -∞, negative numbers give NaN.
    float other = x < 0.0f ? from_bits(0x7fc00000u) : from_bits(0xff800000u);
    y = 0.0f < x ? y : other;
    y = x != x ? x : y;
    return GREATEST < x ? x : y;
}
