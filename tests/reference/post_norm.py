"""Parts of post-norm transformers by loops, with gradients: P holds a model's parameters by name.

Vectors one at a time, in lists; `heads` equal heads; without dropout.
"""

import math

import torch


def linear(P, name, x):
    return P[f"{name}.weight"] @ x + P[f"{name}.bias"]


def norm(P, name, x):
    middle = sum(x) / len(x)
    variance = sum((value - middle) ** 2 for value in x) / len(x)
    return P[f"{name}.weight"] * (x - middle) / (variance + 1e-5) ** 0.5 + P[f"{name}.bias"]


def attend(P, name, xs, memory, heads, causal=False):
    """Each x over the memory's vectors; of a causal one up to its own place."""
    q, k, v = (
        [linear(P, f"{name}.{part}", x) for x in each]
        for part, each in (("query", xs), ("key", memory), ("value", memory))
    )
    d, found = len(xs[0]) // heads, []
    for i in range(len(xs)):
        seen, joined = range(i + 1 if causal else len(memory)), []
        for head in range(heads):
            part = slice(head * d, (head + 1) * d)
            powers = [((q[i][part] * k[j][part]).sum() / math.sqrt(d)).exp() for j in seen]
            joined.append(sum(p * v[j][part] for p, j in zip(powers, seen, strict=True)) / sum(powers))
        found.append(linear(P, f"{name}.output", torch.cat(joined)))
    return found


def added(P, name, xs, others):
    """LN(x + y) of each."""
    return [norm(P, name, x + y) for x, y in zip(xs, others, strict=True)]


def fed(P, name, xs):
    return [linear(P, f"{name}.3", linear(P, f"{name}.0", x).clamp(min=0)) for x in xs]


def wave(position, width):
    """A word's place: sine and cosine in turn."""
    angles = [position / 10_000 ** (2 * (i // 2) / width) for i in range(width)]
    values = [math.cos(angle) if i % 2 else math.sin(angle) for i, angle in enumerate(angles)]
    return torch.tensor(values, dtype=torch.float64)


def decoded(P, xs, memory, heads, layers):
    """The decoder's logits of one caption's words."""
    for layer in range(layers):
        name = f"decoder.layers.{layer}"
        xs = added(P, f"{name}.norms.0", xs, attend(P, f"{name}.self_attention", xs, xs, heads, causal=True))
        xs = added(P, f"{name}.norms.1", xs, attend(P, f"{name}.cross_attention", xs, memory, heads))
        xs = added(P, f"{name}.norms.2", xs, fed(P, f"{name}.feed_forward", xs))
    return [linear(P, "decoder.vocabulary", x) for x in xs]


def cross_entropy(logits, tokens):
    """Mean over all words and <END> of all captions."""
    each = [
        rows[t].exp().sum().log() - rows[t][word]
        for rows, caption in zip(logits, tokens, strict=True)
        for t, word in enumerate(caption[1:])
        if word != 0
    ]
    return sum(each) / len(each)


def agree(model, loops, before, after, tokens):
    """Losses, by name, and the gradients of each."""
    P, found = dict(model.named_parameters()), model.losses(before, after, tokens)
    expected = loops(P)
    assert found.keys() == expected.keys()
    for term in found:
        close(found[term].double(), expected[term], term)
        ours, theirs = (
            torch.autograd.grad(each[term], P.values(), retain_graph=True, allow_unused=True)
            for each in (found, expected)
        )
        for name, one, other in zip(P, ours, theirs, strict=True):
            there = [torch.zeros_like(P[name]) if each is None else each for each in (one, other)]
            close(*there, f"{term}, {name}")


def close(found, expected, name):
    """The caption's loss is computed in float32."""
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6, msg=lambda said: f"{name}: {said}")
