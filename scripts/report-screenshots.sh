#!/usr/bin/env bash
# Pictures of the pages that `--report` writes, into results/report: a replay and a sweep in a window, in the dark and on a
# phone. Needs a release build and Chromium (Debian's package `chromium`).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

BIN=${BIN:-target/release/autohet-sim}
BROWSER=${BROWSER:-$(command -v chromium || command -v chromium-browser || command -v google-chrome)}
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

"$BIN" trace generate --seed 7 --hours 12 --pool 4x4xV100-16@us-east-1a:2.2 --pool 3x4xT4@us-east-1a:0.8 >"$place/market.csv"
"$BIN" --trace "$place/market.csv" --model gpt3-1.3b --global-batch-size 128 --out "$place/market" \
    --report "$place/replay.html" --quiet >"$place/said"
"$BIN" sweep scenarios/mix-sweep.toml --out "$place/mix-sweep" --baseline results/mix-sweep/rows.csv \
    --report "$place/sweep.html" --quiet >>"$place/said"

# A browser without a window has no preference for the dark; a copy of the page whose style asks for none has it always.
dark='s/screen and (prefers-color-scheme: dark)/screen/'
for page in replay sweep; do sed "$dark" "$place/$page.html" >"$place/$page-dark.html"; done

# picture PAGE NAME WIDTH HEIGHT
picture() {
    HOME=$place TMPDIR=$place XDG_CONFIG_HOME=$place XDG_CACHE_HOME=$place "$BROWSER" --headless --no-sandbox \
        --disable-gpu --disable-dev-shm-usage --disable-breakpad --hide-scrollbars --user-data-dir="$place/profile" \
        --window-size="$3,$4" --screenshot="$place/$2.png" "file://$place/$1.html" 2>>"$place/said"
    mkdir -p results/report
    mv "$place/$2.png" "results/report/$2.png"
}

picture replay replay 1100 1250
picture replay-dark replay-dark 1100 1250
picture replay replay-phone 500 1100
picture sweep sweep 1100 1300
ls -l results/report
