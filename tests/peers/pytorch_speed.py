"""Tokens per CPU-second of PyTorch on one core, training GPT of 17 million parameters as `benches/training.rs` does.

Prints the figure of each run, one a line. `python pytorch_speed.py [RUNS]`.
"""

import statistics
import sys
import time

import torch

from models import Spec, loss

SPEC = Spec(
    {
        "architecture": "gpt",
        "num_layers": 6,
        "hidden_size": 384,
        "num_attention_heads": 6,
        "num_key_value_heads": 6,
        "head_dim": 64,
        "ffn_hidden_size": 1536,
        "vocab_size": 8192,
        "seq_length": 256,
    }
)
SAMPLES = 8
STEPS = 4


def parameters():
    torch.manual_seed(0)
    hidden, ffn = SPEC.hidden_size, SPEC.ffn_hidden_size

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

    words = matrix(SPEC.vocab_size, hidden)
    blocks = {"embedding": [words, matrix(SPEC.seq_length, hidden)], "head": [*norm(), words]}
    blocks.update({f"layer-{index}": layer() for index in range(SPEC.num_layers)})
    return blocks


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    torch.set_num_threads(1)
    blocks = parameters()
    # The words of both ends are one tensor.
    unique = list({id(parameter): parameter for block in blocks.values() for parameter in block}.values())
    # The fastest that PyTorch has on the CPU.
    optimizer = torch.optim.AdamW(unique, lr=1e-3, fused=True)
    tokens = torch.randint(SPEC.vocab_size, (SAMPLES, SPEC.seq_length + 1))
    inputs, targets = tokens[:, :-1], tokens[:, 1:]

    def step():
        optimizer.zero_grad()
        loss(SPEC, blocks, inputs, targets, None).backward()
        optimizer.step()

    step()
    rates = []
    for _ in range(runs):
        start = time.process_time()
        for _ in range(STEPS):
            step()
        rates.append(STEPS * SAMPLES * SPEC.seq_length / (time.process_time() - start))
        print(f"{rates[-1]:.1f}", flush=True)
    print(f"median of {runs}: {statistics.median(rates):.1f}", file=sys.stderr)


if __name__ == "__main__":
    main()
