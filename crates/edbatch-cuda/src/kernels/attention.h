// Attention over the values at a port, and its gradient. Results have the bits of
// `kernels/attention.rs` in `edbatch-runtime`.
#pragma once
#include "steps.h"

// Runs of `most` values, whose numbers fit in shared memory: each(i, j) of each value j, i-th of its
// run, on all threads; then all(first, run) in a single thread.
template <class Each, class All>
DEVICE void each_run(const Block& block, u32 count, u32 most, Each each, All all) {
    for (u32 first = 0; first < count; first += most) {
        u32 run = count - first < most ? count - first : most;
        block.superstep([&](u32 t) {
            for (u32 i = t; i < run; i += THREADS) each(i, first + i);
        });
        block.superstep([&](u32 t) {
            if (t == 0) all(first, run);
        });
    }
}

// Finds the maximum of all scores.
template <class Score>
DEVICE void find_max(const Block& block, u32 count, u32 most, Score score, float* scores,
                     float* max) {
    each_run(block, count, most, [&](u32 i, u32 j) { scores[i] = score(j); },
             [&](u32 first, u32 run) {
                 float found = first == 0 ? from_bits(0xff800000u) : *max;
                 for (u32 i = 0; i < run; ++i) found = scores[i] <= found ? found : scores[i];
                 *max = found;
             });
}

// Computes one head of one call with all threads of a block: calls write(c, the sum of value(j, c)
// over the `count` values, weighted by the softmax of score(j)) for c in 0..columns. `written(c)`
// reads what the same thread wrote. Scores are computed in runs that fit in shared memory: first
// for their maximum, then for the exponentials.
template <class Score, class Value, class Written, class Write>
DEVICE void attend(const Block& block, u32 count, u32 columns, Score score, Value value,
                   Written written, Write write) {
    constexpr u32 RUN = ROWS - 2;
    float* weights = block.shared();
    float* max = block.shared() + RUN;
    float* sum = block.shared() + RUN + 1;
    find_max(block, count, RUN, score, weights, max);
    for (u32 first = 0; first < count; first += RUN) {
        u32 run = count - first < RUN ? count - first : RUN;
        bool last = first + run == count;
        block.superstep([&](u32 t) {
            for (u32 j = t; j < run; j += THREADS)
                weights[j] = exp_(sub(score(first + j), *max));
        });
        block.superstep([&](u32 t) {
            if (t != 0) return;
            float all = first == 0 ? 0.0f : *sum;
            for (u32 j = 0; j < run; ++j) all = add(all, weights[j]);
            *sum = all;
        });
        block.superstep([&](u32 t) {
            for (u32 c = t; c < columns; c += THREADS) {
                float chain = first == 0 ? 0.0f : written(c);
                for (u32 j = 0; j < run; ++j) chain = fma_(weights[j], value(first + j, c), chain);
                write(c, last ? div_(chain, *sum) : chain);
            }
        });
    }
}

// Attention of each call over the values at a port. The score of a value is its column `scores` of
// the head or, if there is a query, the inner product of `depth` columns of the head from there on.
CALLED void attention(Block block, Job j, u32 operand, Rows query, u32 scores, u32 depth,
                      u32 values, u32 heads, u32 columns, Own to) {
    if (Units(1, j).count == 0) return;
#pragma unroll 1
    for (u32 r = 0; r < j.count; ++r) {
        Values all(j, operand, j.first + r);
#pragma unroll 1
        for (u32 head = 0; head < heads; ++head) {
            auto score = [&](u32 v) {
                const float* of = j.arena + all.rows[v] + scores;
                if (query.base == nullptr) return fresh(of + head);
                const float* q = query.row(j, r) + head * depth;
                return dot_rows(depth, [&](u32 i) { return fresh(q + i); },
                                [&](u32 i) { return fresh(of + head * depth + i); });
            };
            float* own = to.row(r) + head * columns;
            attend(block, all.count, columns, score,
                   [&](u32 v, u32 c) {
                       return fresh(j.arena + all.rows[v] + values + head * columns + c);
                   },
                   [&](u32 c) { return fresh(own + c); }, [&](u32 c, float x) { put(own + c, x); });
        }
    }
}

// The gradient of one head of one call, with all threads of a block, from score(j) and product(j) of
// the `count` values: the inner products of the query and key j, and of the gradient of the result
// and value j. With p the softmax of the scores, calls write(c, Σ p[j] (product(j) - d) key(j, c))
// for c in 0..columns, where d = Σ p[j] product(j), and end(max + ln Σ exp(score - max), d).
template <class Score, class Product, class Key, class Written, class Write, class End>
DEVICE void attend_back(const Block& block, u32 count, u32 columns, Score score, Product product,
                        Key key, Written written, Write write, End end) {
    constexpr u32 RUN = (ROWS - 3) / 2;
    float *p = block.shared(), *products = p + RUN;
    float *max = products + RUN, *sum = max + 1, *d = max + 2;
    auto exponential = [&](u32 j) { return exp_(sub(score(j), *max)); };
    find_max(block, count, RUN, score, p, max);
    each_run(block, count, RUN, [&](u32 i, u32 j) { p[i] = exponential(j); },
             [&](u32 first, u32 run) {
                 float all = first == 0 ? 0.0f : *sum;
                 for (u32 i = 0; i < run; ++i) all = add(all, p[i]);
                 *sum = all;
             });
    each_run(block, count, RUN,
             [&](u32 i, u32 j) { p[i] = div_(exponential(j), *sum), products[i] = product(j); },
             [&](u32 first, u32 run) {
                 // The CPU's sum begins with -0.
                 float all = first == 0 ? -0.0f : *d;
                 for (u32 i = 0; i < run; ++i) all = add(all, mul(p[i], products[i]));
                 *d = all;
             });
    for (u32 first = 0; first < count; first += RUN) {
        u32 run = count - first < RUN ? count - first : RUN;
        block.superstep([&](u32 t) {
            for (u32 j = t; j < run; j += THREADS) {
                float of_sum = div_(exponential(first + j), *sum);
                p[j] = mul(of_sum, sub(product(first + j), *d));
            }
        });
        block.superstep([&](u32 t) {
            for (u32 c = t; c < columns; c += THREADS) {
                float chain = first == 0 ? 0.0f : written(c);
                for (u32 j = 0; j < run; ++j) chain = fma_(p[j], key(first + j, c), chain);
                write(c, chain);
            }
        });
    }
    block.superstep([&](u32 t) {
        if (t == 0) end(add(*max, log_(*sum)), *d);
    });
}

// The gradient of attention with respect to the query; then for each head the logarithm of the sum
// of its scores' exponentials, then for each head the product of the gradient and the result.
// `gradient` is the result's gradient. Keys of `depth` columns a head begin at column `keys` of each
// value, and values of `columns` columns a head at column `values`.
CALLED void attention_back(Block block, Job j, u32 operand, Rows query, Rows gradient, u32 keys,
                           u32 depth, u32 values, u32 columns, u32 heads, Own to) {
    if (Units(1, j).count == 0) return;
#pragma unroll 1
    for (u32 r = 0; r < j.count; ++r) {
        Values all(j, operand, j.first + r);
        float* row = to.row(r);
#pragma unroll 1
        for (u32 head = 0; head < heads; ++head) {
            auto key = [&](u32 v, u32 c) {
                return fresh(j.arena + all.rows[v] + keys + head * depth + c);
            };
            auto value = [&](u32 v, u32 c) {
                return fresh(j.arena + all.rows[v] + values + head * columns + c);
            };
            const float* q = query.row(j, r) + head * depth;
            const float* g = gradient.row(j, r) + head * columns;
            float* own = row + head * depth;
            attend_back(block, all.count, depth,
                        [&](u32 v) {
                            return dot_rows(depth, [&](u32 i) { return fresh(q + i); },
                                            [&](u32 i) { return key(v, i); });
                        },
                        [&](u32 v) {
                            return dot_rows(columns, [&](u32 i) { return fresh(g + i); },
                                            [&](u32 i) { return value(v, i); });
                        },
                        key, [&](u32 c) { return fresh(own + c); },
                        [&](u32 c, float x) { put(own + c, x); },
                        [&](float logarithm, float product) {
                            put(row + heads * depth + head, logarithm);
                            put(row + heads * (depth + 1) + head, product);
                        });
        }
    }
}
