"""A small IDC-PCL, and its equations a token at a time, out of plain sums and products."""

import math

import torch

import models
from models.common.decoder import NULL
from models.idc_pcl.switches import RELEASED, PclSizes, PclSwitches
from tests.random_models import randomise

SIZES = PclSizes(5, (4, 6), 11, 8, 8, 2, 1, 2, 2, 2)  # 2 x 3 cells, 11 words, captions of up to 8 tokens
N, MASK = 6, 11
SETTINGS = {"dropout": 0.0, "masked_words": 0.3, "masked_words_captioning": 0.3, "masked_cells": 0.3}
SETTINGS |= {"coef_lr": 1.0, "tau1": 0.7, "tau2": 0.6}


def settings(name, variant, switches):
    given = {"variant": variant, "switches": switches} | SETTINGS
    return {key: given[key] for key in given if name == "idc_pcl" or key not in FIRST_PHASE}


FIRST_PHASE = ("masked_words", "masked_cells", "tau1", "tau2")


def switches_of(variant):
    return RELEASED if variant == "released" else PclSwitches()


def captioner(variant="paper", name="idc_pcl", **switches):
    return randomise(models.build(name, SIZES, settings(name, variant, switches)).double())


def pretraining(variant="paper", single=False, **switches):
    own = settings("idc_pcl", variant, switches)
    return randomise(models.build("idc_pcl", SIZES, own, "images" if single else "pretrain").double())


def images(count, seed=1):
    random = torch.Generator().manual_seed(seed)
    return torch.randn(count, 5, 4, 6, generator=random, dtype=torch.float64)


def captions(count, seed=2):
    """Of 3, 4, 5, 6, 3 ... words and both marks, NULL-padded."""
    tokens = torch.randint(4, 11, (count, 8), generator=torch.Generator().manual_seed(seed))
    for row in range(count):
        length = 5 + row % 4
        tokens[row, 0], tokens[row, length - 1] = 2, 3
        tokens[row, length:] = 0
    return tokens


def norm(x, layer, variant, epsilon):
    """A layer norm of one vector."""
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
    return torch.tensor([position(p, c, variant) for c in range(8)], dtype=torch.float64)


def pooled(image):
    """One image's cells, N vectors: means of 2 x 2, row-major."""
    return [
        sum(image[:, 2 * i + a, 2 * j + b] for a in range(2) for b in range(2)) / 4
        for i in range(2)
        for j in range(3)
    ]


def image_tokens(net, cells, side, variant):
    """[IMG1] or [IMG2], then the cells, embedded."""
    row = 12 if variant == "released" else 13 + side
    found = [net.words.weight[row] + net.types.weight[1 + 2 * side]]
    for i, x in enumerate(cells):
        shown = 1 / (1 + torch.exp(-(net.project.weight @ x + net.project.bias)))
        found.append(shown + net.types.weight[2 + 2 * side] + place(i, variant))
    return [norm(x, net.norm, variant, 1e-12) for x in found]


def logits(net, x):
    """A row of the output layer after the other; in `released` [MASK]'s and [CLS]'s are behind the words'."""
    rows = range(13 if net.image_marks == (12, 12) else 11)
    return torch.stack([net.output.weight[row] @ x + net.output.bias[row] for row in rows])


def word_tokens(net, tokens, variant, cls=False):
    found = [net.words.weight[12] + net.types.weight[5]] if cls else []
    for p, token in enumerate(tokens):
        found.append(math.sqrt(8) * net.words.weight[token] + net.types.weight[6] + place(p, variant))
    return [norm(x, net.norm, variant, 1e-12) for x in found]


def transformer(layers, tokens, variant, sees):
    """Blocks over a list of vectors; `sees(i, j)`: whether token i looks at token j."""
    x = [norm(t, layers.norm, variant, 1e-6) for t in tokens]
    for block in layers.blocks:
        y = [norm(t, block.norm_1, variant, 1e-6) for t in x]
        a = block.attention
        q, k, v = ([m(t) for t in y] for m in (a.query, a.key, a.value))
        after = []
        for i in range(len(x)):
            heads = []
            seen = [j for j in range(len(x)) if sees(i, j)]
            for part in (slice(0, 4), slice(4, 8)):
                weights = torch.stack([k[j][part] for j in seen]).mv(q[i][part] / 2).exp()
                summed = weights @ torch.stack([v[j][part] for j in seen])
                heads.append(summed / weights.sum())
            after.append(x[i] + a.output(torch.cat(heads)))
        first, _, _, last = block.feed_forward
        x = [t + last(first(norm(t, block.norm_2, variant, 1e-6)).clamp(min=0)) for t in after]
    return x


def every(i, j):
    return True


def encoded(net, before, after, variant):
    """V~ of one pair's cells: a list of M vectors."""
    tokens = [image_tokens(net, cells, side, variant) for side, cells in enumerate((before, after))]
    if not net.compares:
        return tokens[0] + tokens[1]
    singles = [transformer(net.single, own, variant, every) for own in tokens]
    return transformer(net.pair, singles[0] + singles[1], variant, every)


def encoded_alone(net, cells, variant):
    """V~ of a single image's cells: [IMG1], cells; [IMG2] joins after the single-image transformer."""
    tokens = image_tokens(net, cells, 0, variant)
    joined = transformer(net.single, tokens, variant, every) + image_tokens(net, [], 1, variant)
    return transformer(net.pair, joined, variant, every)


def joint(model, before, after, tokens, variant, memory=None):
    """V^ and T^ of one pair and one caption in pre-training; in `paper` nobody sees padding."""
    net = model.difference
    memory = memory or encoded(net, before, after, variant)
    words = word_tokens(net, tokens, variant, cls=True)
    real = [True] * (len(memory) + 1) + [variant == "released" or token != NULL for token in tokens]
    out = transformer(net.cross, memory + words, variant, lambda i, j: real[j])
    return out[: len(memory)], out[len(memory) :]


def masks(monkeypatch, tokens, words, cells=None):
    """Fix what is hidden: captions are read as `words`, wherever they differ is chosen."""
    module = "models.idc_pcl.pretraining"
    chosen = words != tokens
    for each in (module, "models.idc_pcl.model"):
        monkeypatch.setattr(f"{each}.masked_words", lambda *_: (words, chosen))
    monkeypatch.setattr(f"{module}.masked_cells", lambda *_: cells)
    return chosen


def hide(tokens):
    """The second word and <END> as [MASK]."""
    return tokens.clone().index_fill_(1, torch.tensor([2]), MASK).masked_fill(tokens == 3, MASK)


def predicted(model, v, variant):
    """MVCL's p of one cell's output."""
    head = model.cell_head
    u = head.map(v)
    u = u * (1 + torch.erf(u / math.sqrt(2))) / 2
    return model.difference.project.weight.T @ norm(u, head.norm, variant, 1e-12) + head.bias


def cosine(a, b):
    return (a @ b / (a.norm() * b.norm())).item()
