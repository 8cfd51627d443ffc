#!/bin/sh
# Runs the tests of kernels on an emulated 64-bit Arm processor, which has NEON, and compares what
# the command prints for each small model with what it prints on this processor, byte by byte.
# With --probe, only fails if a tool is missing.
set -eu
cd "$(dirname "$0")/../.."

target=aarch64-unknown-linux-gnu
emulator="qemu-aarch64 -L /usr/aarch64-linux-gnu"
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$emulator"

"$CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER" --version >/dev/null
qemu-aarch64 --version >/dev/null
ls -d "$(rustc --print target-libdir --target "$target")" >/dev/null
[ "${1:-}" != --probe ] || exit 0

# Emulated, unoptimized kernels would take ten times as long.
cargo test --release -p edbatch-runtime --target "$target" --lib --test it
cargo build --release -p edbatch-cli
cargo build --release -p edbatch-cli --target "$target"

folder="${CARGO_TARGET_DIR:-target}"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
for model in crates/edbatch/tests/goldens-small/*; do
    for precision in f32 bf16; do
        "$folder/release/edbatch" infer "$model" --precision "$precision" >"$work/here"
        $emulator "$folder/$target/release/edbatch" infer "$model" --precision "$precision" \
            >"$work/arm"
        cmp "$work/here" "$work/arm"
        echo "$(basename "$model"), $precision: $(wc -c <"$work/here") bytes are equal"
    done
    for input in "$model"/trees.txt "$model"/tagged.txt; do
        [ -f "$input" ] || continue
        "$folder/release/edbatch" gradients "$model" --input "$input" --output "$work/here"
        $emulator "$folder/$target/release/edbatch" gradients "$model" --input "$input" \
            --output "$work/arm"
        cmp "$work/here" "$work/arm"
        echo "$(basename "$model"): $(wc -c <"$work/here") bytes of gradients are equal"
    done
done
