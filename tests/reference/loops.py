"""Layers of transformers by loops: vectors one at a time, in lists, with gradients, without dropout.

P holds a model's parameters by name.
"""

import math

import torch


def vector(values):
    return torch.tensor(values, dtype=torch.float64)


def linear(P, name, x, bias=True):
    return P[f"{name}.weight"] @ x + (P[f"{name}.bias"] if bias else 0)


def norm(P, name, x, epsilon=1e-5):
    middle = sum(x) / len(x)
    variance = sum((value - middle) ** 2 for value in x) / len(x)
    return P[f"{name}.weight"] * (x - middle) / (variance + epsilon) ** 0.5 + P[f"{name}.bias"]


def gelu(x):
    return x * (1 + torch.erf(x / math.sqrt(2))) / 2


def mixed(q, k, v, seen):
    """One head, and a query that sees the keys `seen`: softmax(q k / sqrt(d)) v."""
    weights = torch.stack([q @ k[j] / math.sqrt(len(q)) for j in seen]).softmax(0)
    return weights @ torch.stack([v[j] for j in seen])


def heads_of(q, k, v, heads, sees=lambda i, j: True):
    """Attention without projections: of each query the heads' results, concatenated; i sees j if `sees`."""
    d, found = len(q[0]) // heads, []
    parts = [slice(head * d, (head + 1) * d) for head in range(heads)]
    for i in range(len(q)):
        seen = [j for j in range(len(k)) if sees(i, j)]
        each = [mixed(q[i][p], [x[p] for x in k], [x[p] for x in v], seen) for p in parts]
        found.append(torch.cat(each))
    return found


def maps_of(q, k, heads):
    """Attention weights of each query, the mean over heads: L x M."""
    parts = [x.chunk(heads) for x in k]
    one = torch.eye(len(k), dtype=k[0].dtype)
    return (
        torch.stack(
            [
                sum(
                    mixed(own, [x[h] for x in parts], one, range(len(k)))
                    for h, own in enumerate(x.chunk(heads))
                )
                for x in q
            ]
        )
        / heads
    )


def attend(P, name, xs, memory, heads, causal=False, keys=None, output=True, bias=True):
    """Multi-head attention of each x to the memory; causal: to its own place at most; `keys`: where true."""
    q, k, v = (
        [linear(P, f"{name}.{part}", x, bias) for x in each]
        for part, each in (("query", xs), ("key", memory), ("value", memory))
    )
    joined = heads_of(q, k, v, heads, lambda i, j: (not causal or j <= i) and (keys is None or bool(keys[j])))
    return [linear(P, f"{name}.output", x, bias) for x in joined] if output else joined


def added(P, name, xs, others, epsilon=1e-5):
    """LN(x + y) of each."""
    return [norm(P, name, x + y, epsilon) for x, y in zip(xs, others, strict=True)]


def fed(P, name, xs, last=3, activation=torch.relu):
    return [linear(P, f"{name}.{last}", activation(linear(P, f"{name}.0", x))) for x in xs]


def wave(position, width):
    """The embedding of a word's position: sine and cosine in turn."""
    angles = [position / 10_000 ** (2 * (i // 2) / width) for i in range(width)]
    return vector([math.cos(angle) if i % 2 else math.sin(angle) for i, angle in enumerate(angles)])


def decoded(P, xs, memory, heads, layers):
    """The decoder's logits of one caption's words."""
    for layer in range(layers):
        name = f"decoder.layers.{layer}"
        xs = added(P, f"{name}.norms.0", xs, attend(P, f"{name}.self_attention", xs, xs, heads, causal=True))
        xs = added(P, f"{name}.norms.1", xs, attend(P, f"{name}.cross_attention", xs, memory, heads))
        xs = added(P, f"{name}.norms.2", xs, fed(P, f"{name}.feed_forward", xs))
    return [linear(P, "decoder.vocabulary", x) for x in xs]


def log_softmax(logits, place):
    return logits[place] - logits.logsumexp(0)


def cross_entropy(logits, tokens):
    """Mean over all words and <END> of all captions."""
    each = [
        -log_softmax(rows[t], word)
        for rows, caption in zip(logits, tokens, strict=True)
        for t, word in enumerate(caption[1:])
        if word != 0
    ]
    return sum(each) / len(each)


def contrast(S):
    """-(1/B) sum_k log softmax(S_k)_k."""
    return -sum(log_softmax(torch.stack(list(row)), k) for k, row in enumerate(S)) / len(S)


def transposed(S):
    return [list(column) for column in zip(*S, strict=True)]


def agree(model, expected, before, after, tokens):
    """Losses by name, and the gradients of each in all parameters; `expected`: parameters -> losses."""
    P, found = dict(model.named_parameters()), model.losses(before, after, tokens)
    same_gradients(P, found, expected(P))


def same_gradients(P, found, expected):
    assert found.keys() == expected.keys()
    for term in found:
        close(found[term].double(), expected[term], term)
        ours, theirs = (
            torch.autograd.grad(each[term], P.values(), retain_graph=True, allow_unused=True)
            for each in (found, expected)
        )
        for name, *both in zip(P, ours, theirs, strict=True):
            close(*(torch.zeros_like(P[name]) if each is None else each for each in both), f"{term}, {name}")


def close(found, expected, name):
    """The caption's loss is computed in float32."""
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6, msg=lambda said: f"{name}: {said}")
