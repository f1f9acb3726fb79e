"""The models of autohet-run in PyTorch, written from their papers.

Parameters are lists of tensors by block (`embedding`, `layer-0`, ..., `head`), in the order and layout that autohet has
them: a matrix is `[inputs, outputs]`, but for the word matrices, which are `[words, hidden_size]`.
"""

import math

import torch
import torch.nn.functional as F

NORM_EPSILON = 1e-5
ROTARY_BASE = 10_000.0


class Spec:
    """A model's shape; the fields are those of autohet's `ModelSpec`."""

    def __init__(self, fields):
        self.architecture = fields["architecture"]
        for name in (
            "num_layers",
            "hidden_size",
            "num_attention_heads",
            "num_key_value_heads",
            "head_dim",
            "ffn_hidden_size",
            "vocab_size",
            "seq_length",
        ):
            setattr(self, name, int(fields[name]))

    @property
    def has_bias(self):
        return self.architecture != "llama"


class _Taken:
    """A block's parameters, taken one after the other."""

    def __init__(self, spec, parameters):
        self.spec = spec
        self.rest = iter(parameters)

    def next(self):
        return next(self.rest)

    def linear(self, inputs):
        weight = self.next()
        return F.linear(inputs, weight.t(), self.next().flatten() if self.spec.has_bias else None)

    def norm(self, inputs):
        width = (self.spec.hidden_size,)
        gain = self.next().flatten()
        if self.spec.has_bias:
            return F.layer_norm(inputs, width, gain, self.next().flatten(), NORM_EPSILON)
        return F.rms_norm(inputs, width, gain, NORM_EPSILON)


def _rotated(heads):
    """Rotary positions of `[samples, heads, seq_length, head_dim]`: entry `i` turns with entry `i + head_dim / 2`."""
    length, half = heads.shape[2], heads.shape[3] // 2
    frequencies = ROTARY_BASE ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = torch.outer(torch.arange(length, dtype=torch.float64), frequencies)
    cosine, sine = angles.cos().to(heads.dtype), angles.sin().to(heads.dtype)
    first, second = heads[..., :half], heads[..., half:]
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


def attention(spec, taken, inputs):
    """Attention without any fused kernel, before its output matrix."""
    samples, length, _ = inputs.shape

    def heads(count):
        return taken.linear(inputs).view(samples, length, count, spec.head_dim).transpose(1, 2)

    query = heads(spec.num_attention_heads)
    key = heads(spec.num_key_value_heads)
    value = heads(spec.num_key_value_heads)
    if spec.architecture == "llama":
        query, key = _rotated(query), _rotated(key)
    group = spec.num_attention_heads // spec.num_key_value_heads
    if group > 1:
        key, value = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
    scores = query @ key.transpose(2, 3) / math.sqrt(spec.head_dim)
    if spec.architecture != "bert":
        mask = torch.full((length, length), -math.inf, dtype=scores.dtype).triu(1)
        scores = scores + mask
    attended = scores.softmax(dim=-1) @ value
    return attended.transpose(1, 2).reshape(samples, length, spec.num_attention_heads * spec.head_dim)


def _mlp(spec, taken, inputs):
    if spec.architecture == "llama":
        gate = taken.linear(inputs)
        return taken.linear(F.silu(gate) * taken.linear(inputs))
    return taken.linear(F.gelu(taken.linear(inputs), approximate="tanh"))


def _layer(spec, parameters, residual):
    taken = _Taken(spec, parameters)
    if spec.architecture == "bert":
        residual = taken.norm(residual + taken.linear(attention(spec, taken, residual)))
        # The linear layers are called inside out, so that parameters are taken in order.
        return taken.norm(residual + _mlp(spec, taken, residual))
    residual = residual + taken.linear(attention(spec, taken, taken.norm(residual)))
    return residual + _mlp(spec, taken, taken.norm(residual))


def loss(spec, blocks, inputs, targets, weights):
    """The loss of `inputs` `[samples, seq_length]`: the sum of each target's cost by its weight."""
    taken = _Taken(spec, blocks["embedding"])
    state = F.embedding(inputs, taken.next())
    if spec.architecture != "llama":
        state = state + taken.next()
    if spec.architecture == "bert":
        state = taken.norm(state + taken.next()[0])
    for layer in range(spec.num_layers):
        state = _layer(spec, blocks[f"layer-{layer}"], state)
    taken = _Taken(spec, blocks["head"])
    if spec.architecture == "bert":
        state = taken.norm(F.gelu(taken.linear(state), approximate="tanh"))
        logits = F.linear(state, taken.next(), taken.next().flatten())
    else:
        logits = F.linear(taken.norm(state), taken.next())
    logits = logits.flatten(0, 1)
    if weights is None:
        return F.cross_entropy(logits, targets.flatten())
    costs = F.cross_entropy(logits, targets.flatten(), reduction="none")
    return (costs * weights.flatten()).sum()
