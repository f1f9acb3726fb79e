#!/usr/bin/env bash
# Checks training on one NVIDIA GPU, in under eight minutes once it is built: unlike plans give the losses of one rank, a
# profile, predictions against measurements, tokens/s and MFU of GPT small with 1, 2 and 4 ranks on the GPU, beside PyTorch
# where it is installed. Leaves JSON in a folder.
#
#   cargo build --release --features cuda
#   scripts/gpu-check.sh [results/gpu]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=$(realpath -m "${1:-results/gpu}")
bin=$(realpath "${BIN:-target/release}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
command -v nvidia-smi >/dev/null || { echo 'no `nvidia-smi`: is the NVIDIA driver installed?' >&2; exit 1; }
mkdir -p "$out"
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | head -n 1 >"$out/machine.txt"
cat "$out/machine.txt"
# What MFU is a share of: the type that the plans name. GPU_TYPE=… says it of a GPU that isn't known here.
case $(cat "$out/machine.txt") in
    *H200*) found=H200 ;; *H100*) found=H100 ;; *H20*) found=H20 ;; *A100*40*) found=A100-40 ;; *A100*) found=A100-80 ;;
    *V100*32*) found=V100-32 ;; *V100*) found=V100-16 ;; *A10G*) found=A10G ;; *L4*) found=L4 ;; *T4*) found=T4 ;;
    *4090*) found=RTX-4090 ;; *3090*) found=RTX-3090 ;; *) found= ;;
esac
gpu=${GPU_TYPE:-$found}
[[ -n $gpu ]] || { echo 'say which GPU this is: GPU_TYPE=H100 scripts/gpu-check.sh' >&2; exit 2; }

# plan NODES MODEL BATCH PRECISION: a plan for so many nodes of one GPU, or of two that share their layers for `2t`.
plan() {
    "$bin/autohet-sim" plan --cluster "$1" --model "$2" --global-batch-size "$3" --precision "$4" --out "$5" >/dev/null
}

# loss FOLDER: the last loss of a run.
loss() { python3 -c "import json; print(json.load(open('$1/summary.json'))['last_loss'])"; }

echo '== unlike plans, one result (fp32)'
plan "1x1x$gpu" gpt-tiny 8 fp32 "$work/one.json"
plan "2x1x$gpu" gpt-tiny 8 fp32 "$work/two.json"
plan "1x2x$gpu" gpt-tiny 8 fp32 "$work/shared.json"
plan "1x1x$gpu+2x1xRTX-3090" gpt-tiny 8 fp32 "$work/unlike.json"
for name in one two shared unlike; do
    "$bin/autohet-run" --plan "$work/$name.json" --backend cuda --steps 5 --out "$work/$name" -q
    echo "$name: $(loss "$work/$name")"
done
python3 - "$work" "$out/conformance.json" <<'PYTHON'
import json, sys
work, out = sys.argv[1], sys.argv[2]
names = ["one", "two", "shared", "unlike"]
losses = {name: json.load(open(f"{work}/{name}/summary.json"))["last_loss"] for name in names}
worst = max(abs(losses[name] / losses["one"] - 1) for name in names)
json.dump({"losses": losses, "worst_relative_difference": worst}, open(out, "w"), indent=2)
# TF32 and other orders of summation: wider than on the CPU.
sys.exit(0 if worst < 1e-3 else f"losses differ by {worst}")
PYTHON

echo '== profile of GPT small (bf16)'
"$bin/autohet-run" profile --model gpt-small --backend cuda --micro-batch-sizes 1,2,4,8 --out "$out/profile.json"

echo '== GPT small: prediction against measurement'
beyond=()
for ranks in 1 2 4; do
    plan "${ranks}x1x$gpu" gpt-small 32 bf16 "$work/small-$ranks.json"
    "$bin/autohet-run" check --plan "$work/small-$ranks.json" --backend cuda --steps 10 --tolerance 15% \
        --out "$out/check-$ranks" || (($? == 1)) && beyond+=("$ranks")
    "$bin/autohet-run" --plan "$work/small-$ranks.json" --backend cuda --steps 20 --out "$work/run-$ranks" -q
    cp "$work/run-$ranks/summary.json" "$out/run-$ranks.json"
done

if python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
    echo '== PyTorch'
    python3 tests/peers/pytorch_speed.py 3 --device cuda --json "$out/pytorch.json"
fi
echo "left in $out"
if ((${#beyond[@]} > 0)); then
    echo "predictions for ${beyond[*]} ranks are more than 15 % off" >&2
    exit 1
fi
