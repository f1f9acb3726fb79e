"""Takes the step that autohet took, in PyTorch, and compares: `python pytorch.py FOLDER`.

The folder has `step.safetensors` and `step.json`, as the test `a_step_is_that_of_pytorch` writes them.
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

from models import Spec, loss

TOLERANCE = 1e-5
# Of a whole block's norm: the least that a difference is measured by. Some gradients are nothing but rounding, as the key
# bias's is.
FLOOR = 1e-3


def by_block(tensors, what):
    blocks = {}
    for name, tensor in tensors.items():
        kind, _, place = name.partition("/")
        if kind == what:
            block, index = place.rsplit("/", 1)
            blocks.setdefault(block, {})[int(index)] = tensor
    return {block: [tensor for _, tensor in sorted(own.items())] for block, own in blocks.items()}


def norm(tensors):
    return torch.cat([tensor.double().flatten() for tensor in tensors]).norm().item()


def worst(found, expected):
    """The largest difference of a tensor by its norm, and where."""
    differences = []
    for block, tensors in expected.items():
        floor = FLOOR * norm(tensors)
        for index, tensor in enumerate(tensors):
            difference = norm([found[block][index].double() - tensor.double()])
            differences.append((difference / max(norm([tensor]), floor), f"{block}/{index}"))
    return max(differences)


def run(about, tensors, dtype):
    """Loss, gradients and parameters after the step, computed in this format.

    The optimizer takes autohet's gradients: its first step is hardly more than their sign, so that those which are
    nothing but rounding would decide.
    """
    spec = Spec(about["model"])
    blocks = {
        block: [tensor.to(dtype, copy=True).requires_grad_() for tensor in own]
        for block, own in by_block(tensors, "initial").items()
    }
    if about["model"]["tie_word_embeddings"]:
        words = 4 if spec.architecture == "bert" else (2 if spec.has_bias else 1)
        if not torch.equal(blocks["head"][words], blocks["embedding"][0]):
            sys.exit("the words of both ends start unlike")
        blocks["head"][words] = blocks["embedding"][0]
    unique = list({id(tensor): tensor for own in blocks.values() for tensor in own}.values())
    adamw = about["adamw"]
    optimizer = torch.optim.AdamW(
        unique,
        lr=about["learning_rate"],
        betas=(adamw["beta1"], adamw["beta2"]),
        eps=adamw["epsilon"],
        weight_decay=adamw["weight_decay"],
    )
    value = loss(spec, blocks, tensors["inputs"], tensors["targets"], tensors["weights"].to(dtype))
    value.backward()
    gradients = {block: [tensor.grad.clone() for tensor in own] for block, own in blocks.items()}
    for block, own in by_block(tensors, "gradient").items():
        for tensor, gradient in zip(blocks[block], own):
            tensor.grad = gradient.to(dtype)
    optimizer.step()
    return value.item(), gradients, {block: [tensor.detach() for tensor in own] for block, own in blocks.items()}


def main():
    folder = Path(sys.argv[1])
    about = json.loads((folder / "step.json").read_text())
    tensors = load_file(folder / "step.safetensors")
    torch.set_num_threads(1)
    gradients, stepped = by_block(tensors, "gradient"), by_block(tensors, "stepped")
    is_same = True
    for dtype in (torch.float32, torch.float64):
        value, expected, parameters = run(about, tensors, dtype)
        found = {
            "loss": (abs(about["loss"] - value) / abs(value), "mean"),
            "gradient": worst(gradients, expected),
            "parameter": worst(stepped, parameters),
        }
        for what, (difference, place) in found.items():
            is_same &= difference <= TOLERANCE
            print(f"{str(dtype).removeprefix('torch.')} {what}: {difference:.1e} relative at most, in {place}")
    sys.exit(0 if is_same else "differs from PyTorch")


if __name__ == "__main__":
    main()
