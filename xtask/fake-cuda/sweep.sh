#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Spoils one place after another of a model's kernels, and counts how many of these mistakes the fake
# driver, or a comparison of bits, finds: is the check itself any good?
#
#   sweep.sh EDBATCH NVRTC FOLDER MODEL DRIVER FROM TO COUNT     e.g. … teams bar.sync // 124
#
# Places that the model's inputs do not reach stay silent, and barriers that others make needless.
set -u
edbatch=$1 nvrtc=$2 to=$3 model=$4 driver=$5 from=$6 by=$7 count=$8
FAKE_CUDA_NVRTC=$nvrtc EDBATCH_CUDA_LIBRARIES=$to LD_LIBRARY_PATH=$to CUDA_CACHE_DISABLE=1
XDG_CACHE_HOME=$to/cache EDBATCH_CUDA=$driver
export FAKE_CUDA_NVRTC EDBATCH_CUDA_LIBRARIES LD_LIBRARY_PATH CUDA_CACHE_DISABLE XDG_CACHE_HOME EDBATCH_CUDA
"$edbatch" infer "$model" --backend cpu >"$to/sweep.cpu" || exit 1
found=0 silent= n=1
while [ "$n" -le "$count" ]; do
    rm -f "$to/sweep.log"
    FAKE_CUDA_LOG=$to/sweep.log FAKE_CUDA_MUTATE="$n:$from=>$by" timeout 60 \
        "$edbatch" infer "$model" --backend cuda >"$to/sweep.out" 2>/dev/null
    if grep -q '^FINDING' "$to/sweep.log" 2>/dev/null || ! cmp -s "$to/sweep.cpu" "$to/sweep.out"; then
        found=$((found + 1))
    else
        silent="$silent $n"
    fi
    n=$((n + 1))
done
echo "'$from' by '$by': found $found of $count; silent:$silent"
