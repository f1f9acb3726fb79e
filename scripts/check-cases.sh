#!/usr/bin/env bash
# Puts predictions beside measurements for the standing cases of `scenarios/check`, into results/check. On the CPU they take
# two cores that have nothing else to do.
#
#   cargo build --release --features burn-cpu && scripts/check-cases.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bin=${BIN:-target/release}/autohet-run
cases=scenarios/check
check() {
    local name=$1
    shift
    # What is beyond the tolerance is a result too.
    "$bin" check "$@" --out "results/check/$name" || (($? == 1))
}
for name in pp2 dp2 tp2; do check "$name" --plan "$cases/$name.json" --steps 12; done
check emulated-16 --plan "$cases/emulated-16.json" --backend emulated --steps 10 --tolerance 4%
check emulated-16-slow-link --plan "$cases/emulated-16-slow-link.json" --cluster "$cases/slow-link.toml" \
    --backend emulated --steps 10 --tolerance 4%
