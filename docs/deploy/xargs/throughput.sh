#!/bin/bash
# Compares eight shards in two processes with one process of two threads, in turns:
#
#   throughput.sh EDBATCH MODEL INPUT...
#
# Prints the median seconds of both over ROUNDS (9) rounds, and the median ratios of throughput and
# of processor time, which other programs disturb less.
set -euo pipefail

edbatch=$(realpath "$1")
model=$2
shift 2
scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT

whole() {
    "$edbatch" infer "$model" --input "$@" --threads 2 --output "$scratch/one.jsonl"
}

shards() {
    rm -rf "$scratch/out"
    seq 0 7 | xargs -P 2 -I {} "$edbatch" infer "$model" --input "$@" --shard {}/8 \
        --output-dir "$scratch/out" --threads 1 2> "$scratch/said"
}

# Elapsed seconds, and processor seconds of all cores.
seconds() {
    local TIMEFORMAT='%R %U %S'
    { time "$@"; } 2>&1 | awk '{ print $1, $2 + $3 }'
}

median() {
    sort -n | sed -n "$(((ROUNDS + 1) / 2))p"
}

ROUNDS=${ROUNDS:-9}
for ((round = 0; round <= ROUNDS; round++)); do
    one=$(seconds whole "$@")
    many=$(seconds shards "$@")
    # The first round warms up.
    if ((round > 0)); then
        echo "$one $many" >> "$scratch/rounds"
    fi
done
cmp "$scratch/one.jsonl" <("$edbatch" shards cat "$scratch/out")
column() {
    awk "{ print $1 }" "$scratch/rounds" | median
}

# shellcheck disable=SC2016
ratios() {
    echo "one process of two threads: $(column '$1') s;" \
        "eight shards in two processes: $(column '$3') s"
    echo "throughput of shards: $(column '$1 / $3') of one process (median of $ROUNDS rounds);" \
        "work: $(column '$4 / $2')"
}

ratios
