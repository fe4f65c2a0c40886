"""DIRL and CCR (docs/methods.md, "Methods") by loops, as transcription.py has SCORER; for its sizes."""

import math

import numpy as np

from tests.own_settings import VALUES
from tests.reference.transcription import SIZES, TAU, attend, decode, encode, linear, norm, predicted

ALPHA = VALUES["alpha"]


def interact(P, s, b, a):
    """Both images' cells -> the memory's."""
    first_b, first_a = b, a
    for layer in range(SIZES.layers if s.shared == "layers" else 1):
        name, ln = f"difference.attentions.{layer}", f"difference.norms.{layer}"
        b_shared, a_shared = (
            attend(P, name, b, a, s.attention_output),
            attend(P, name, a, b, s.attention_output),
        )
        if s.shared == "layers":
            b_shared = [norm(P, ln, x + u, s.norm_epsilon) for x, u in zip(b, b_shared, strict=True)]
            a_shared = [norm(P, ln, x + u, s.norm_epsilon) for x, u in zip(a, a_shared, strict=True)]
        b, a = b_shared, a_shared
    memory = []
    for cell in zip(first_b, b, first_a, a, strict=True):
        fused = linear(P, "difference.fuse", np.append(cell[0] - cell[1], cell[2] - cell[3]))
        memory.append(np.maximum(norm(P, "difference.norm", fused) if s.fusion_norm else fused, 0))
    return memory


def projected(P, cells):
    hidden = [np.maximum(linear(P, "regularisers.dirl.mlp.0", x), 0) for x in cells]
    return [linear(P, "regularisers.dirl.mlp.3", x) for x in hidden]


def correlated(b, a, center):
    """Tokens of a batch, channel by channel: C."""
    D, n = len(b[0]), len(b)
    C = np.zeros((D, D))
    for i in range(D):
        for j in range(D):
            x, y = [token[i] for token in b], [token[j] for token in a]
            if center:
                x, y = standardised(x), standardised(y)
                C[i, j] = sum(u * v for u, v in zip(x, y, strict=True)) / n
            else:
                lengths = math.sqrt(sum(u * u for u in x)), math.sqrt(sum(v * v for v in y))
                C[i, j] = sum(u * v for u, v in zip(x, y, strict=True)) / lengths[0] / lengths[1]
    return C


def standardised(values):
    middle = sum(values) / len(values)
    deviation = math.sqrt(sum((value - middle) ** 2 for value in values) / (len(values) - 1))
    return [(value - middle) / deviation for value in values]


def apart(C, alpha, terms):
    alike, others = 0, 0
    for i in range(len(C)):
        for j in range(len(C)):
            if i == j:
                alike += (1 - C[i, j]) ** 2
            else:
                others += alpha * C[i, j] ** 2
    return {"both": alike + others, "non_perturbation": alike, "discrimination": others}[terms]


def cross_entropy(S):
    rows = [[value / TAU for value in row] for row in S]
    return -sum(row[k] - np.logaddexp.reduce(row) for k, row in enumerate(rows)) / len(rows)


def contrasted(s, layers, lengths):
    """`layers`: for each caption, of each layer, its four streams of word vectors."""
    B = range(len(layers))
    losses = []
    for layer in range(SIZES.decoder_layers):
        text, visual = [], []
        for k in B:
            own, own_normed, seen, seen_normed = layers[k][layer]
            e, v = (own, seen) if s.streams == "attended" else (own_normed, seen_normed)
            words = lengths[k] if s.pooled == "real" else len(e)
            text.append(sum(e[:words]) / words)
            visual.append(sum(v[:words]) / words)
        S = [[sum(text[k] * visual[r]) for r in B] for k in B]
        turned = [[S[r][k] for r in B] for k in B]
        if s.directions == "each":
            losses.append((cross_entropy(S) + cross_entropy(turned)) / 2)
        else:
            losses.append(cross_entropy([[(S[k][r] + turned[k][r]) / 2 for r in B] for k in B]))
    return losses[-1] if s.ccr_layers == "last" else sum(losses) / len(losses)


def transcription(model, s, inputs):
    P = {name: value.double().numpy() for name, value in model.state_dict().items()}
    before, after = (x.double().numpy() for x in inputs[:2])
    tokens = [[int(word) for word in row] for row in inputs[2]]
    lengths = [sum(token != 0 for token in row[1:]) for row in tokens]
    b, a = [encode(P, s, X) for X in before], [encode(P, s, X) for X in after]
    memory = [interact(P, s, *cells) for cells in zip(b, a, strict=True)]
    longest = SIZES.longest + 1 if s.pooled == "all" else len(tokens[0])
    padded = [row + [0] * (longest - len(row)) for row in tokens]
    layers = [[] for _ in padded]
    hidden = [decode(P, s, *each) for each in zip(padded, memory, layers, strict=True)]
    logits = predicted(P, hidden, tokens)
    cap = [
        np.logaddexp.reduce(logits[k][t]) - logits[k][t][tokens[k][t + 1]]
        for k, length in enumerate(lengths)
        for t in range(length)
    ]
    C = correlated(*([y for cells in images for y in projected(P, cells)] for images in (b, a)), s.center)
    return {
        "memory": np.array(memory),
        "logits": np.array(logits),
        "cap": sum(cap) / len(cap),
        "dirl": apart(C, ALPHA, s.terms),
        "ccr": contrasted(s, layers, lengths),
    }
