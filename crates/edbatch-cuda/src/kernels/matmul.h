// An element of a product of two values, like `kernels/batched_gemm.rs` of `edbatch-runtime`.
//
//     float sum = chain(depth_0, left_0, right_0);        the first piece of the right side
//     sum = chain(depth_1, left_1, right_1, sum);         the next piece, whose k starts at 0
//     out = add(sum, bias)                                if there is a bias
#pragma once
#include "block.h"

// `sum` plus left(k) · right(k) for k in 0..depth, as one chain of fused multiply-adds.
template <class Left, class Right>
DEVICE float chain(u32 depth, Left left, Right right, float sum = 0.0f) {
#pragma unroll 4
    for (u32 k = 0; k < depth; ++k) sum = fma_(left(k), right(k), sum);
    return sum;
}
