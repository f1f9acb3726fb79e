#!/usr/bin/env bash
# Puts predictions beside measurements for the standing cases of `scenarios/check`, into results/check. On the CPU they take
# two cores that have nothing else to do. Each case runs five times: the run of the median error is kept whole, and
# `runs.csv` has the iteration times of all.
#
#   cargo build --release --features burn-cpu && scripts/check-cases.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bin=${BIN:-target/release}/autohet-run
cases=scenarios/check
runs=${RUNS:-5}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Predicted seconds, measured seconds and the error of one run's iteration.
iteration() {
    awk -F'[:,]' '/"iteration_s"/ { found = 1 }
        found && /"predicted"/ { predicted = $2 }
        found && /"measured"/ { measured = $2 }
        found && /"relative_error"/ { printf "%.6f,%.6f,%.4f\n", predicted, measured, $2; exit }' "$1"
}

check() {
    local name=$1
    shift
    for ((run = 1; run <= runs; run++)); do
        # What is beyond the tolerance is a result too.
        "$bin" check "$@" --out "$work/$name/$run" >"$work/out" 2>&1 || (($? == 1)) || { cat "$work/out" && exit 1; }
        printf '%s,%s,%s\n' "$name" "$run" "$(iteration "$work/$name/$run/summary.json")" | tee -a "$work/runs.csv"
    done
    local median
    median=$(grep "^$name," "$work/runs.csv" | sort -t, -k5,5g | sed -n "$(((runs + 1) / 2))p" | cut -d, -f2)
    rm -rf "results/check/$name"
    mv "$work/$name/$median" "results/check/$name"
}

echo 'case,run,predicted_s,measured_s,relative_error' | tee "$work/runs.csv"
for name in pp2 dp2 tp2; do check "$name" --plan "$cases/$name.json" --steps 12; done
check emulated-16 --plan "$cases/emulated-16.json" --backend emulated --steps 10 --tolerance 4%
check emulated-16-slow-link --plan "$cases/emulated-16-slow-link.json" --cluster "$cases/slow-link.toml" \
    --backend emulated --steps 10 --tolerance 4%
mv "$work/runs.csv" results/check/runs.csv
