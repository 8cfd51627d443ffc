#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Builds the fake driver and the compiler's front into a folder: build.sh FOLDER
set -eu
here=$(dirname "$0")
to=${1:?a folder}
mkdir -p "$to"
# Exact arithmetic: nothing is contracted but what the kernels say, and fmaf is one instruction.
fma=
[ "$(uname -m)" = x86_64 ] && fma=-mfma
flags="-std=c++17 -O2 -g1 -Wall -Wextra -Wno-missing-field-initializers -fPIC -ffp-contract=off $fma"
for part in driver ptx_read ptx_run nvrtc_shim; do
    # shellcheck disable=SC2086
    ${CXX:-c++} $flags -c "$here/$part.cpp" -o "$to/$part.o" &
done
wait
${CXX:-c++} -shared -Wl,-soname,libcuda.so.1 -o "$to/libcuda.so.1" "$to/driver.o" "$to/ptx_read.o" "$to/ptx_run.o" -lpthread
${CXX:-c++} -shared -Wl,-soname,libnvrtc.so.13 -o "$to/libnvrtc.so.13" "$to/nvrtc_shim.o" -ldl
