// The loss of a row of scores for a class, and its gradient: `cross_entropy` and `ln` of
// `kernels/math.rs` in `edbatch-runtime`, with the same operations in the same order.
#pragma once
#include "stage.h"
#include "steps.h"

// Each operation is rounded separately, whatever the compiler's options.
#ifdef __CUDACC_RTC__
DEVICE double add(double a, double b) { return __dadd_rn(a, b); }
DEVICE double sub(double a, double b) { return __dsub_rn(a, b); }
DEVICE double mul(double a, double b) { return __dmul_rn(a, b); }
DEVICE double div_(double a, double b) { return __ddiv_rn(a, b); }
DEVICE u64 bits(double x) { return (u64)__double_as_longlong(x); }
DEVICE double from_bits(u64 x) { return __longlong_as_double((long long)x); }
#else
DEVICE double add(double a, double b) { return a + b; }
DEVICE double sub(double a, double b) { return a - b; }
DEVICE double mul(double a, double b) { return a * b; }
DEVICE double div_(double a, double b) { return a / b; }
DEVICE u64 bits(double x) {
    u64 bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
DEVICE double from_bits(u64 bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
#endif

// The natural logarithm. `kernels/math.rs` explains the formulas.
DEVICE double ln_(double x) {
    constexpr double HIGH = 0.6931471805582987, LOW = 1.6465949582897082e-12;
    constexpr double LEAST_NORMAL = 2.2250738585072014e-308, TWO_54 = 18014398509481984.0;
    constexpr double SQRT_2 = 1.41421356237309504880;
    constexpr u64 MANTISSA = (1ull << 52) - 1, INFINITE = 0x7ffull << 52;
    if (x != x || x < 0.0) return from_bits(INFINITE | 1ull << 51);
    if (x == 0.0) return from_bits(INFINITE | 1ull << 63);
    if (bits(x) == INFINITE) return x;
    bool tiny = x < LEAST_NORMAL;
    if (tiny) x = mul(x, TWO_54);
    int exponent = (int)(bits(x) >> 52) - 1023 - (tiny ? 54 : 0);
    double significand = from_bits((bits(x) & MANTISSA) | 1023ull << 52);
    if (significand > SQRT_2) {
        significand = mul(significand, 0.5);
        ++exponent;
    }
    double k = exponent, f = sub(significand, 1.0);
    double s = div_(f, add(2.0, f)), square = mul(s, s), series = 0.0;
#pragma unroll
    for (int i = 10; i > 0; --i) series = add(mul(series, square), 2.0 / (2 * i + 1));
    double r = mul(series, square), half = mul(mul(0.5, f), f);
    double rest = add(mul(s, add(half, r)), mul(k, LOW));
    return sub(mul(k, HIGH), sub(sub(half, rest), f));
}

// The weighted loss of a row whose score for the class is `score`.
DEVICE double weighted_loss(float weight, Peak peak, float score) {
    double above = sub((double)peak.max, (double)score);
    return mul((double)weight, add(ln_((double)peak.sum), above));
}

// An element of the gradient: a probability, without 1 if it is the class's, times the weight.
DEVICE float loss_gradient(float weight, float probability, bool is_class) {
    return mul(is_class ? sub(probability, 1.0f) : probability, weight);
}

// A row of scores, its class, and the places of its gradient and its weighted loss: elements of the
// arena. The loss has two. A term of width 0 has no scores and no loss.
struct Term {
    u32 scores, class_, gradient, loss;

    DEVICE void end(float* arena, double value) const { *(double*)(arena + loss) = value; }
};

// The rows up to this width are computed by a thread each.
enum : u32 { NARROW = 64 };

// One thread computes a row.
DEVICE void narrow_loss(float* arena, Term term, u32 width, float weight) {
    if (width == 0) return term.end(arena, 0.0);
    const float* scores = arena + term.scores;
    float* gradient = arena + term.gradient;
    auto from = [&](u32 i) { return fresh(scores + i); };
    auto write = [&](u32 i, float probability) {
        put(gradient + i, loss_gradient(weight, probability, i == term.class_));
    };
    Peak peak = softmax_row(width, from, write, false);
    term.end(arena, weighted_loss(weight, peak, from(term.class_)));
}

// A block computes a row: the exponentials of a chunk of elements, then 16 threads add each its own
// to its partial sum. Uses shared memory; all threads must call it.
DEVICE void wide_loss(const Block& block, float* arena, Term term, u32 width, float weight) {
    constexpr u32 PARTIAL = 16, CHUNK = 4096;
    static_assert(CHUNK % PARTIAL == 0 && CHUNK + THREADS <= ROWS, "room for a chunk");
    const float* scores = arena + term.scores;
    float* gradient = arena + term.gradient;
    float *chunk = block.shared(), *of_threads = chunk + CHUNK;
    block.superstep([&](u32 t) {
        float max = from_bits(0xff800000u);
        for (u32 i = t; i < width; i += THREADS) max = larger(max, fresh(scores + i));
        of_threads[t] = max;
    });
#pragma unroll 1
    for (u32 span = THREADS / 2; span > 0; span /= 2)
        block.superstep([&](u32 t) {
            if (t < span) of_threads[t] = larger(of_threads[t], of_threads[t + span]);
        });
    Peak peak{of_threads[0], 0.0f};
    // All threads have read the maximum.
    block.superstep([&](u32) {});
    block.superstep([&](u32 t) {
        if (t < PARTIAL) of_threads[t] = 0.0f;
    });
#pragma unroll 1
    for (u32 first = 0; first < width; first += CHUNK) {
        u32 left = width - first, count = left < CHUNK ? left : CHUNK;
        block.superstep([&](u32 t) {
            for (u32 i = t; i < count; i += THREADS)
                chunk[i] = exp_(sub(fresh(scores + first + i), peak.max));
        });
        block.superstep([&](u32 t) {
            if (t >= PARTIAL) return;
            float sum = of_threads[t];
            for (u32 i = t; i < count; i += PARTIAL) sum = add(sum, chunk[i]);
            of_threads[t] = sum;
        });
    }
    for (u32 i = 0; i < PARTIAL; ++i) peak.sum = add(peak.sum, of_threads[i]);
    block.superstep([&](u32 t) {
        for (u32 i = t; i < width; i += THREADS) {
            float probability = div_(exp_(sub(fresh(scores + i), peak.max)), peak.sum);
            put(gradient + i, loss_gradient(weight, probability, i == term.class_));
        }
        if (t == 0) term.end(arena, weighted_loss(weight, peak, fresh(scores + term.class_)));
    });
}

// The jobs `Loss` and `LossSum` of `command_list.rs`.

DEVICE Term term_of(const Arguments& a, const u32* job, u32 index) {
    return ((const Term*)(a.commands + job[1]))[index];
}
DEVICE float weight_of(const Arguments& a) { return from_bits(a.commands[2]); }

// Runs a job with narrow rows: lane n of a warp computes its term n.
CALLED void narrow_losses(Arguments a, const u32* job, u32 lane) {
    if (lane < job[2]) narrow_loss(a.arena, term_of(a, job, lane), job[3], weight_of(a));
}

CALLED void wide_losses(Block block, Arguments a, const u32* job) {
#pragma unroll 1
    for (u32 i = 0; i < job[2]; ++i)
        wide_loss(block, a.arena, term_of(a, job, i), job[3], weight_of(a));
}

// Adds up the losses of each input, in order. As on the CPU, a sum begins at -0.
CALLED void sum_losses(Block block, Arguments a, const u32* job) {
    const u32 *list = a.commands + job[1], *ends = list + 2;
    const double* losses = (const double*)(a.arena + list[0]);
    double* sums = (double*)(a.arena + list[1]);
    block.superstep([&](u32 t) {
        for (u32 i = t; i < job[2]; i += THREADS) {
            double sum = -0.0;
            for (u32 v = i == 0 ? 0 : ends[i - 1]; v < ends[i]; ++v) sum = add(sum, losses[v]);
            sums[i] = sum;
            bool is_finite = (bits(sum) >> 52 & 0x7ff) != 0x7ff;
            if (!is_finite) a.stage->set_bad_input(job[3] + i);
        }
    });
}
