"""How fast PyTorch trains: on the CPU GPT of 17 million parameters on one core, in fp32, as `benches/training.rs` does, in
tokens per CPU-second; on a GPU GPT small, in bf16 with fp32 parameters, in tokens per second.

Prints the figure of each run, one a line.
"""

import argparse
import contextlib
import json
import statistics
import sys
import time

import torch

from models import Spec, loss


def gpt(num_layers, hidden_size, heads, vocab_size, seq_length):
    return Spec(
        {
            "architecture": "gpt",
            "num_layers": num_layers,
            "hidden_size": hidden_size,
            "num_attention_heads": heads,
            "num_key_value_heads": heads,
            "head_dim": hidden_size // heads,
            "ffn_hidden_size": 4 * hidden_size,
            "vocab_size": vocab_size,
            "seq_length": seq_length,
        }
    )


SPECS = {"cpu": gpt(6, 384, 6, 8192, 256), "cuda": gpt(12, 768, 12, 50304, 1024)}
SAMPLES = 8
STEPS = 4


def parameters(spec):
    torch.manual_seed(0)
    hidden, ffn = spec.hidden_size, spec.ffn_hidden_size

    def matrix(rows, columns):
        return (torch.randn(rows, columns) * 0.02).requires_grad_()

    def vector(width, value):
        return torch.full((1, width), value).requires_grad_()

    def norm():
        return [vector(hidden, 1.0), vector(hidden, 0.0)]

    def linear(rows, columns):
        return [matrix(rows, columns), vector(columns, 0.0)]

    def layer():
        attention = [parameter for _ in range(4) for parameter in linear(hidden, hidden)]
        return [*norm(), *attention, *norm(), *linear(hidden, ffn), *linear(ffn, hidden)]

    words = matrix(spec.vocab_size, hidden)
    blocks = {"embedding": [words, matrix(spec.seq_length, hidden)], "head": [*norm(), words]}
    blocks.update({f"layer-{index}": layer() for index in range(spec.num_layers)})
    return blocks


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("runs", nargs="?", type=int, default=1)
    arguments.add_argument("--device", choices=SPECS, default="cpu")
    arguments.add_argument("--json", help="file for the figures")
    arguments = arguments.parse_args()
    spec, on_gpu = SPECS[arguments.device], arguments.device == "cuda"
    torch.set_num_threads(1)
    torch.set_default_device(arguments.device)
    blocks = parameters(spec)
    # The words of both ends are one tensor.
    unique = list({id(parameter): parameter for block in blocks.values() for parameter in block}.values())
    # The fastest that PyTorch has.
    optimizer = torch.optim.AdamW(unique, lr=1e-3, fused=True)
    tokens = torch.randint(spec.vocab_size, (SAMPLES, spec.seq_length + 1))
    inputs, targets = tokens[:, :-1], tokens[:, 1:]

    def step():
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16) if on_gpu else contextlib.nullcontext():
            value = loss(spec, blocks, inputs, targets, None)
        value.backward()
        optimizer.step()

    def seconds():
        if on_gpu:
            torch.cuda.synchronize()
            return time.perf_counter()
        return time.process_time()

    step()
    rates = []
    for _ in range(arguments.runs):
        start = seconds()
        for _ in range(STEPS):
            step()
        rates.append(STEPS * SAMPLES * spec.seq_length / (seconds() - start))
        print(f"{rates[-1]:.1f}", flush=True)
    median = statistics.median(rates)
    print(f"median of {arguments.runs}: {median:.1f}", file=sys.stderr)
    if arguments.json:
        figures = {"device": arguments.device, "torch": torch.__version__, "tokens_per_s": rates, "median": median}
        with open(arguments.json, "w") as file:
            json.dump(figures, file, indent=2)


if __name__ == "__main__":
    main()
