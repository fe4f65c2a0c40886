"""A small IDC-PCL, and its equations by loops: a token at a time, in lists of vectors."""

import math
from functools import partial

import torch

import models
from models.common.decoder import NULL
from models.idc_pcl.switches import RELEASED, PclSizes, PclSwitches
from tests.own_settings import settings_of
from tests.random_models import randomise
from tests.reference.loops import gelu, heads_of, vector

SIZES = PclSizes(5, (4, 6), 11, 8, 8, 2, 1, 2, 2, 2)  # 2 x 3 cells, 11 words, captions of up to 8 tokens
N, MASK = 6, 11
VALUES = {"masked_words": 0.3, "masked_words_captioning": 0.3, "masked_cells": 0.3}
VALUES |= {"coef_lr": 1.0, "tau1": 0.7, "tau2": 0.6}


def switches_of(variant):
    return RELEASED if variant == "released" else PclSwitches()


def built(variant="paper", phase=None, name="idc_pcl", **switches):
    """All parameters random; `phase`: images, pretrain, or None for the captioner."""
    own = settings_of(name, **VALUES) | {"variant": variant, "switches": switches}
    return randomise(models.build(name, SIZES, own, phase).double())


captioner, pretraining = built, partial(built, phase="pretrain")


def images(count, seed=1):
    random = torch.Generator().manual_seed(seed)
    return torch.randn(count, 5, 4, 6, generator=random, dtype=torch.float64)


def captions(count, seed=2):
    """Captions of 5 to 8 tokens with <START> and <END>, NULL-padded."""
    tokens = torch.randint(4, 11, (count, 8), generator=torch.Generator().manual_seed(seed))
    for row in range(count):
        length = 5 + row % 4
        tokens[row, 0], tokens[row, length - 1] = 2, 3
        tokens[row, length:] = 0
    return tokens


def norm(x, layer, variant, epsilon):
    mean = x.sum() / len(x)
    squares = ((x - mean) ** 2).sum().item()
    if variant == "released":
        scale = math.sqrt(squares / (len(x) - 1)) + epsilon
    else:
        scale = math.sqrt(squares / len(x) + epsilon)
    return layer.weight * (x - mean) / scale + layer.bias


def position(p, c, variant, width=8):
    exponent = 2 * c / width if variant == "released" else 2 * (c // 2) / width
    angle = p / 10_000**exponent
    return math.cos(angle) if c % 2 else math.sin(angle)


def place(p, variant):
    return vector([position(p, c, variant) for c in range(8)])


def pooled(image):
    """One image's cells, N vectors: means of 2 x 2, row-major."""
    corners = [(2 * i, 2 * j) for i in range(2) for j in range(3)]
    return [sum(image[:, i + a, j + b] for a in range(2) for b in range(2)) / 4 for i, j in corners]


def image_tokens(net, cells, side, variant):
    """[IMG1] or [IMG2], then the cells, embedded."""
    row = 12 if variant == "released" else 13 + side
    found = [net.words.weight[row] + net.types.weight[1 + 2 * side]]
    for i, x in enumerate(cells):
        shown = 1 / (1 + torch.exp(-(net.project.weight @ x + net.project.bias)))
        found.append(shown + net.types.weight[2 + 2 * side] + place(i, variant))
    return [norm(x, net.norm, variant, 1e-12) for x in found]


def logits(net, x):
    """Logits of the words; in `released`, those of [MASK] and [CLS] follow."""
    rows = 13 if net.image_marks == (12, 12) else 11
    return net.output.weight[:rows] @ x + net.output.bias[:rows]


def word_tokens(net, tokens, variant, cls=False):
    found = [net.words.weight[12] + net.types.weight[5]] if cls else []
    for p, token in enumerate(tokens):
        found.append(math.sqrt(8) * net.words.weight[token] + net.types.weight[6] + place(p, variant))
    return [norm(x, net.norm, variant, 1e-12) for x in found]


def transformer(layers, tokens, variant, sees=lambda i, j: True):
    """Blocks over a list of vectors; token i attends to token j if `sees(i, j)`."""
    x = [norm(t, layers.norm, variant, 1e-6) for t in tokens]
    for block in layers.blocks:
        y = [norm(t, block.norm_1, variant, 1e-6) for t in x]
        a, (first, _, _, last) = block.attention, block.feed_forward
        q, k, v = ([m(t) for t in y] for m in (a.query, a.key, a.value))
        x = [t + a.output(seen) for t, seen in zip(x, heads_of(q, k, v, 2, sees), strict=True)]
        x = [t + last(first(norm(t, block.norm_2, variant, 1e-6)).clamp(min=0)) for t in x]
    return x


def encoded(net, before, after, variant):
    """V~ of one pair's cells: a list of M vectors."""
    tokens = [image_tokens(net, cells, side, variant) for side, cells in enumerate((before, after))]
    if not net.compares:
        return tokens[0] + tokens[1]
    singles = [transformer(net.single, own, variant) for own in tokens]
    return transformer(net.pair, singles[0] + singles[1], variant)


def encoded_alone(net, cells, variant):
    """V~ of a single image's cells: [IMG1], cells; [IMG2] joins after the single-image transformer."""
    tokens = image_tokens(net, cells, 0, variant)
    joined = transformer(net.single, tokens, variant) + image_tokens(net, [], 1, variant)
    return transformer(net.pair, joined, variant)


def joint(model, memory, tokens, variant):
    """V^ and T^ of one pair and one caption in pretraining; in `paper` padding is no key."""
    net = model.difference
    words = word_tokens(net, tokens, variant, cls=True)
    real = [True] * (len(memory) + 1) + [variant == "released" or token != NULL for token in tokens]
    out = transformer(net.cross, memory + words, variant, lambda i, j: real[j])
    return out[: len(memory)], out[len(memory) :]


def masks(monkeypatch, tokens, words, cells=None):
    """Fix the masks: captions are read as `words`, and the positions that differ are predicted."""
    module = "models.idc_pcl.pretraining"
    chosen = words != tokens
    for each in (module, "models.idc_pcl.model"):
        monkeypatch.setattr(f"{each}.masked_words", lambda *_: (words, chosen))
    monkeypatch.setattr(f"{module}.masked_cells", lambda *_: cells)
    return chosen


def hide(tokens):
    """The second word and <END> as [MASK]."""
    return tokens.clone().index_fill_(1, torch.tensor([2]), MASK).masked_fill(tokens == 3, MASK)


def mvcl(model, sides, hidden, tokens, variant, encode):
    """MVCL's loss and mean rank, and the cells of `sides` by (row, side, i); `encode`: shown cells -> V~."""
    p, x, head = {}, {}, model.cell_head
    for row, cells in enumerate(sides):
        shown = [[c * (not hidden[row, s, i]) for i, c in enumerate(own)] for s, own in enumerate(cells)]
        out, _ = joint(model, encode(*shown), tokens[row].tolist(), variant)
        for side, own in enumerate(cells):
            for i, cell in enumerate(own):
                u = norm(gelu(head.map(out[7 * side + 1 + i])), head.norm, variant, 1e-12)
                p[row, side, i] = model.difference.project.weight.T @ u + head.bias
                x[row, side, i] = cell
    masked, others = ([key for key in p if hidden[key] == kind] for kind in (True, False))
    losses, ranks = [], []
    for i in masked:
        if variant == "paper":
            negatives = [cosine(p[i], x[k]) for k in others]
        else:
            negatives = [cosine(p[i], x[j]) for j in masked if j != i] + [cosine(p[i], p[k]) for k in others]
        right = math.exp(cosine(p[i], x[i]) / 0.7)
        losses.append(-math.log(right / (right + sum(math.exp(s / 0.7) for s in negatives))))
        ranks.append(sum(cosine(p[i], x[j]) > cosine(p[i], x[i]) for j in masked))
    return sum(losses) / len(masked), sum(ranks) / len(masked) / (len(masked) - 1)


def cosine(a, b):
    return (a @ b / (a.norm() * b.norm())).item()
