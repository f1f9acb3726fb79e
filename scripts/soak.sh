#!/usr/bin/env bash
# Kills workers of a training run at random moments, and checks that the run gets to its end all the same: no hang, no
# lost step, no process or temporary file left behind.
#
#   scripts/soak.sh [--kills 100] [--minutes 30] [--backend emulated|cpu] [--seed 1] [--keep FOLDER]
#
# Emulated devices have a known speed: the run goes on to its last step. How fast cores are nobody knows beforehand: that run
# is interrupted soon after the last kill.
#
# Needs target/release/autohet-run and autohet-sim (cargo build --release --features burn-cpu), or BIN=folder of others.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

kills=100 minutes=30 backend=emulated seed=1 keep=
while (($# > 0)); do
    case $1 in
        --kills) kills=$2 ;;
        --minutes) minutes=$2 ;;
        --backend) backend=$2 ;;
        --seed) seed=$2 ;;
        --keep) keep=$2 ;;
        *) echo "unknown option \`$1\`" >&2; exit 2 ;;
    esac
    shift 2
done
bin=$(realpath "${BIN:-target/release}")
folder=${keep:-$(mktemp -d)}
mkdir -p "$folder"
run=
finish() {
    [[ -z $run ]] || kill -9 "$run" 2>/dev/null || true
    [[ -n $keep ]] || rm -rf "$folder"
}
trap finish EXIT
fail() {
    echo "soak: $1" >&2
    tail -n 20 "$folder/stderr" >&2
    exit 1
}

# Three nodes of two unlike types; an emulated step takes about 30 ms.
"$bin/autohet-sim" plan --cluster 2x2xT4+2x1xV100-16 --model gpt-tiny --global-batch-size 16 --precision fp32 \
    --out "$folder/plan.json" >/dev/null
case $backend in
    emulated) steps=$((minutes * 60 * 1000 / 15)) every=200 ;;
    cpu) steps=10000000 every=5 ;;
    *) echo "unknown backend \`$backend\`, expected emulated or cpu" >&2; exit 2 ;;
esac
"$bin/autohet-run" --plan "$folder/plan.json" --backend "$backend" --steps "$steps" --max-restarts "$((kills * 4 + 10))" \
    --checkpoint-dir "$folder/checkpoints" --checkpoint-every "$every" --peer-copies 1 --out "$folder/out" \
    >"$folder/stdout" 2>"$folder/stderr" &
run=$!

RANDOM=$seed
pause_ms=$((minutes * 60 * 1000 / (kills + 1)))
killed=0
while ((killed < kills)) && kill -0 "$run" 2>/dev/null; do
    # Between a half and one and a half times the mean: some kills fall into the recovery from the one before.
    ms=$((pause_ms / 2 + RANDOM % (pause_ms + 1)))
    sleep "$((ms / 1000)).$(printf '%03d' $((ms % 1000)))"
    mapfile -t workers < <(pgrep -P "$run" || true)
    ((${#workers[@]} > 0)) || continue
    # One in four takes two at once.
    for _ in $(seq $((RANDOM % 4 == 0 ? 2 : 1))); do
        kill -9 "${workers[RANDOM % ${#workers[@]}]}" 2>/dev/null && killed=$((killed + 1)) || true
    done
done

expected=0 patience=$((minutes * 600 + 60))
if [[ $backend == cpu ]]; then
    # Time for the recovery from the last kill, and for steps after it.
    sleep 20
    kill -INT "$run" 2>/dev/null || fail 'the run was over before it was interrupted'
    expected=130 patience=60
fi

# Ten times as long as it should take by now is a hang.
deadline=$((SECONDS + patience))
while kill -0 "$run" 2>/dev/null; do
    ((SECONDS < deadline)) || fail 'the run hangs'
    sleep 1
done
code=0
wait "$run" || code=$?
((code == expected)) || fail "the run ended with exit code $code, expected $expected"
((killed >= kills)) || fail "the run was over after $killed kills"
# Workers of an interrupted run notice that it is gone.
((expected == 0)) || sleep 5
workers=$(pgrep -f "$bin/autohet-run worker" || true)
run=
[[ -z $workers ]] || fail "processes are left: $workers"
leftovers=$(find "$folder" -name '*.tmp*' -o -name '.*.tmp*' | head)
[[ -z $leftovers ]] || fail "files are left: $leftovers"

# Each step was done; a step that was done again after a rollback gave the same loss.
python3 - "$folder/out/metrics.csv" "$steps" "$backend" <<'PYTHON' || fail 'steps are missing or differ'
import csv, sys

path, steps, backend = sys.argv[1], int(sys.argv[2]), sys.argv[3]
losses, again, worst = {}, 0, 0.0
for row in csv.DictReader(open(path)):
    step, loss = int(row["step"]), float(row["loss"])
    if step in losses:
        again += 1
        if backend != "emulated":
            worst = max(worst, abs(loss - losses[step]) / abs(losses[step]))
    losses[step] = loss
if backend != "emulated":
    steps = max(losses)
missing = [step for step in range(1, steps + 1) if step not in losses]
print(f"soak: {steps} steps, {again} of them done again, losses then within {worst:.1e}, {len(missing)} missing")
sys.exit(1 if missing or worst > 1e-4 else 0)
PYTHON
echo "soak: $killed kills survived"
