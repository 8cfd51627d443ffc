#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs models through the real path to a device, on the fake driver, and compares with the CPU.
#
#   check.sh EDBATCH NVRTC FOLDER MODEL...
#
# EDBATCH is the program, built with `--features cuda`; NVRTC the real libnvrtc.so.13 (or .12);
# FOLDER where build.sh has put the libraries, and where results go; MODEL a folder as `infer` takes
# it. $ARGS has extra options for `infer`, $DRIVERS the values of EDBATCH_CUDA (default: teams). One
# line a run; exit code 1 if anything differs or the driver has found something.
set -u
edbatch=$1 nvrtc=$2 to=$3
shift 3
FAKE_CUDA_NVRTC=$nvrtc EDBATCH_CUDA_LIBRARIES=$to LD_LIBRARY_PATH=$to CUDA_CACHE_DISABLE=1
XDG_CACHE_HOME=$to/cache
export FAKE_CUDA_NVRTC EDBATCH_CUDA_LIBRARIES LD_LIBRARY_PATH CUDA_CACHE_DISABLE XDG_CACHE_HOME
bad=0
for model in "$@"; do
    name=$(basename "$model")
    # shellcheck disable=SC2086
    "$edbatch" infer "$model" --backend cpu ${ARGS:-} >"$to/$name.cpu" || exit 1
    for driver in ${DRIVERS:-teams}; do
        log=$to/$name.$driver.log
        rm -f "$log"
        # shellcheck disable=SC2086
        EDBATCH_CUDA=$driver FAKE_CUDA_LOG=$log "$edbatch" infer "$model" --backend cuda ${ARGS:-} \
            >"$to/$name.$driver" 2>"$to/$name.$driver.err"
        code=$?
        same=other
        cmp -s "$to/$name.cpu" "$to/$name.$driver" && same=same
        found=$(grep -c '^FINDING' "$log" 2>/dev/null)
        echo "$name $driver: exit $code, $same bits, ${found:-no log} findings"
        grep '^FINDING' "$log" 2>/dev/null | head -3
        [ "$code" = 0 ] && [ $same = same ] && [ "${found:-1}" = 0 ] || bad=1
    done
done
exit $bad
