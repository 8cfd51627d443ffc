// Updates parameters by their gradients, with the rules of `kernels/update.rs` of `edbatch-runtime`,
// whose operations are rounded one by one. A block has 1,024 elements of a parameter.
#include "stage.h"

// The rules, in the order of `Rule`; and their numbers.
enum : u32 { DESCENT = 0, MOMENTUM, ADA_GRAD, RMS_PROP, ADAM, NO_RULE };
enum : u32 { NESTEROV = 1, CENTERED = 2 };
struct Change {
    u32 rule, flags;
    // The place of the parameter's elements and moments, and of its gradient.
    u32 at, from, elements;
    // The place in the list of the rows that have a gradient, and the elements of a row; or 0, if
    // all have.
    u32 rows, width;
    float rate, decay, keep, epsilon, first, second, root;
};

struct Chunk {
    u32 change, first;
};

struct Work {
    Stage* stage;
    u64 launch;
    Result* result;
    const Change* changes;
    const Chunk* chunks;
    u64 count;
    const u32* list;
    const float* gradients;
    // Parameters and their moments, each of `size` elements.
    float* values;
    float* moments;
    u64 size;
    // For each element, up to `places` places in the packed weights, or NONE.
    const u32* packed;
    u64 places;
    float* weights;
    // The maximum norm of all gradients, or infinity; and the maximum of an element.
    double norm;
    double limit;
};
enum : u32 { NONE = 0xffffffffu, ELEMENTS = 1024 };

#ifdef __CUDACC_RTC__
DEVICE double divided(double a, double b) { return __ddiv_rn(a, b); }
DEVICE double root(double x) { return __dsqrt_rn(x); }
#else
DEVICE double divided(double a, double b) { return a / b; }
DEVICE double root(double x) { return std::sqrt(x); }
#endif

// The factor of all gradients (`Clipping::scale_and_limit`).
DEVICE float scale_of(const Work& work) {
    double scale = divided(work.norm, root(work.stage->squared_norm) + 1e-6);
    return (float)(scale < 1.0 ? scale : 1.0);
}

// The change of the descent by RMSprop: gradient over the root of a square.
DEVICE float over_root(float g, float square, float epsilon) {
    return div_(g, add(sqrt_(square), epsilon));
}

// Updates a value, given its clipped gradient and its moments, `size` apart.
DEVICE float updated(const Change& c, float w, float g, float* m, u64 size) {
    switch (c.rule) {
    case DESCENT: return sub(w, mul(c.rate, g));
    case MOMENTUM: {
        bool nesterov = c.flags & NESTEROV;
        *m = add(mul(c.first, *m), mul(c.second, g));
        float again = nesterov ? c.first : 1.0f, of_g = nesterov ? 1.0f : 0.0f;
        return sub(w, mul(c.rate, add(mul(of_g, g), mul(again, *m))));
    }
    case ADA_GRAD:
        *m = add(*m, mul(g, g));
        return sub(w, mul(c.rate, over_root(g, *m, c.epsilon)));
    case RMS_PROP: {
        *m = add(*m, mul(c.first, sub(mul(g, g), *m)));
        float square = *m, *next = m + size;
        if (c.flags & CENTERED) {
            *next = add(*next, mul(c.first, sub(g, *next)));
            square = sub(square, mul(*next, *next));
            square = square > 0.0f ? square : 0.0f;
            next += size;
        }
        float step = over_root(g, square, c.epsilon);
        if (c.second != 0.0f) step = *next = add(mul(c.second, *next), step);
        return sub(w, mul(c.rate, step));
    }
    case ADAM: {
        float* v = m + size;
        *m = add(*m, mul(c.first, sub(g, *m)));
        *v = add(*v, mul(c.second, sub(mul(g, g), *v)));
        return sub(w, div_(mul(c.rate, *m), add(mul(c.root, sqrt_(*v)), c.epsilon)));
    }
    default: return w;
    }
}

DEVICE void run_block(const Block& block, const Work& work, u32 index) {
    if (index >= work.count) return;
    Chunk chunk = work.chunks[index];
    Change c = work.changes[chunk.change];
    block.unordered([&](u32 t) {
        float scale = c.rule == NO_RULE ? 1.0f : scale_of(work), limit = (float)work.limit;
#pragma unroll 1
        for (u32 i = t; i < ELEMENTS && chunk.first + i < c.elements; i += THREADS) {
            u32 e = chunk.first + i, own = e;
            if (c.width != 0) own = work.list[c.rows + e / c.width] * c.width + e % c.width;
            own += c.at;
            float w = work.values[own];
            if (c.rule != NO_RULE) {
                float g = mul(fresh(work.gradients + c.from + e), scale);
                g = g < -limit ? -limit : g;
                g = g > limit ? limit : g;
                g = add(g, mul(c.decay, w));
                w = updated(c, mul(w, c.keep), g, work.moments + own, work.size);
                work.values[own] = w;
            }
#pragma unroll 1
            for (u64 n = 0; n < work.places; ++n) {
                u32 to = work.packed[n * work.size + own];
                if (to != NONE) put(work.weights + to, w);
            }
        }
    });
}

DEVICE void end_work(const Block&, const Work&) {}

#include "grid.h"
