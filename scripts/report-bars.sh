#!/usr/bin/env bash
# How large a page of thirty days is, and how soon a browser shows it, beside what they are to be at most. Needs a release
# build, and Chromium (Debian's package `chromium`) for the time: from the start of the navigation until the whole page is
# loaded and laid out, the median of five.
#
#   scripts/report-bars.sh [--keep FOLDER]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

BIN=${BIN:-target/release/autohet-sim}
BROWSER=${BROWSER:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
if [[ ${1:-} == --keep ]]; then
    mkdir -p "$2"
    trap 'cp "$place"/*.html "$2"; rm -rf "$place"' EXIT
fi

# 256 GPUs of three types, about 5,000 events.
pool() { printf '[[pools]]\ngpu_type = "%s"\ngpu_count = 8\nnodes = %d\nzone = "%s"\nprice_usd_per_hour = %s\nup_time_mean_hours = 13.5\n' "$@"; }
{ pool A100-40 12 us-east-1a 8.0; pool V100-16 10 us-east-1b 6.5; pool T4 10 us-east-1a 2.9; } >"$place/market.toml"
"$BIN" trace generate --hours 720 --settings "$place/market.toml" --out "$place/month.csv"
printf '%d events of 30 days\n' "$(($(wc -l <"$place/month.csv") - 1))"
"$BIN" --trace "$place/month.csv" --policies all --out "$place/month" --report "$place/month.html" --quiet >"$place/said"

size=$(stat -c %s "$place/month.html")
printf '%-40s %12s %12s\n' '' 'at most' 'measured' 'report.html of 30 days, 8 policies' '3.00 MB' \
    "$(awk "BEGIN { printf \"%.2f MB\", $size / 1e6 }")"
((size <= 3000000)) || { echo 'too large' >&2; exit 1; }

[[ -n $BROWSER ]] || { echo 'no Chromium here: not opened'; exit 0; }
probe='addEventListener("load", () => { document.documentElement.scrollHeight; document.body.dataset.ms = performance.now(); });'
sed "s|^</body>|<script>$probe</script></body>|" "$place/month.html" >"$place/timed.html"
open() {
    HOME=$place TMPDIR=$place XDG_CONFIG_HOME=$place XDG_CACHE_HOME=$place "$BROWSER" --headless --no-sandbox --disable-gpu \
        --disable-dev-shm-usage --disable-breakpad --user-data-dir="$place/profile" --dump-dom "file://$place/timed.html" \
        2>>"$place/said" | grep -o 'data-ms="[0-9.]*"' | grep -o '[0-9.]*'
}
ms=$(for _ in 1 2 3 4 5; do open; done | sort -n | sed -n 3p)
rm "$place/timed.html"
printf '%-40s %12s %12s\n' 'opened in Chromium' '1000 ms' "$(printf '%.0f ms' "$ms")"
awk "BEGIN { exit !($ms <= 1000) }" || { echo 'too slow' >&2; exit 1; }
