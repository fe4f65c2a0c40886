"""Small models with the dynamic speaker, and their equations by loops: a cell and a word at a time."""

from dataclasses import replace

import torch

import models
from models.common.dynamic_speaker import SpeakerSizes
from models.common.grid_embedding import TransformerSizes
from models.common.trainable import Labels
from models.vard.model import VardSizes
from tests.random_models import randomise
from tests.reference.loops import log_softmax, vector

C, GRID, N, V, L = 5, (2, 3), 6, 9, 6
SIZES = {
    "duda": SpeakerSizes(C, GRID, V, L, 8, 4, 3),
    "vard": VardSizes(C, GRID, V, L, 8, 4, 3, 6, 2),
    "vard_transformer": TransformerSizes(C, GRID, V, L, 6, 2, 1, 4),
}
CHANGED = torch.tensor([1, 1, 0, 0])
TOKENS = torch.tensor([[2, 4, 5, 3, 0], [2, 6, 7, 8, 3], [2, 4, 3, 0, 0], [2, 8, 6, 3, 0]])


def make(name, variant="paper", **switches):
    """All parameters random, by name; in float64, without dropout."""
    model = models.build(name, SIZES[name], {"variant": variant, "switches": switches, "dropout": 0.5})
    return randomise(model.double(), 0.6)


def images(count=4):
    """Features of before and after images: B x C x 2 x 3 each."""
    random = torch.Generator().manual_seed(1)
    return torch.randn(2, count, C, *GRID, generator=random, dtype=torch.float64)


def begun(name, first, width=64):
    """A model with this initialisation, and a pair on 4 x 5 cells, of which cell 7 differs."""
    torch.manual_seed(0)
    sizes = replace(SIZES[name], channels=16, grid=(4, 5), **({} if name == "duda" else {"width": width}))
    if name != "vard_transformer":
        sizes = replace(sizes, maps=32, hidden=32)
    own = {"variant": "paper", "switches": {"first_weights": first}, "dropout": 0.0}
    before = torch.randn(1, 16, 4, 5, dtype=torch.float64)
    after = before + 0.1 * torch.randn(1, 16, 4, 5, dtype=torch.float64)
    after[0, :, 1, 2] = torch.randn(16)
    return models.build(name, sizes, own).double(), before, after


def losses(model, parts=2, changed=CHANGED, tokens=TOKENS):
    before, after = images(len(TOKENS))
    labels = None if changed is None else Labels(changed)
    return model.losses_of(model.encoding(before), model.encoding(after), tokens, parts, labels)


def cells(image, variant):
    """N vectors, row by row; in `released`, x and y follow the channels."""
    found = []
    for i in range(2):
        for j in range(3):
            places = [2 * j / 3 - 1, 2 * i / 2 - 1] if variant == "released" else []
            found.append(torch.cat([image[:, i, j], vector(places)]))
    return found


def normed(values, epsilon):
    """Mean 0 and biased variance 1 over all numbers of a list of vectors."""
    count = sum(map(len, values))
    mean = sum(value.sum() for value in values) / count
    variance = sum(((value - mean) ** 2).sum() for value in values) / count
    return [(value - mean) / torch.sqrt(variance + epsilon) for value in values]


def layer_normed(x, norm):
    return norm.weight * normed([x], 1e-6)[0] + norm.bias


def image_map(module, own, differences):
    """a of each cell."""
    pairs = zip(own, differences, strict=True)
    embedded = [module.embed.weight[:, :, 0, 0] @ torch.cat(pair) + module.embed.bias for pair in pairs]
    parts = [normed([x[part : part + 4] for x in embedded], 1e-5) for part in (0, 4)]
    found = []
    for place in range(N):
        x = torch.cat([part[place] for part in parts]) * module.norm.weight + module.norm.bias
        found.append(torch.sigmoid(module.weigh.weight[0, :, 0, 0] @ x.clamp(min=0) + module.weigh.bias[0]))
    return found


def pooled(weights, own, how):
    found = sum(a * x for a, x in zip(weights, own, strict=True))
    return found / sum(weights) if how == "mean" else found


def lstm(cell, x, h, c):
    """Rows in the order i, f, g, o; two biases."""
    rows = cell.weight_ih @ x + cell.bias_ih + cell.weight_hh @ h + cell.bias_hh
    i, f, g, o = rows.split(len(h))
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def spoken(speaker, l_bef, l_diff, l_aft, words):
    """For each word that is read, the logits of the next word, and alpha."""
    h_d = c_d = h_c = c_c = torch.zeros(4, dtype=torch.float64)
    v = (speaker.look.weight @ torch.cat([l_bef, l_diff, l_aft]) + speaker.look.bias).clamp(min=0)
    found = []
    for word in words:
        h_d, c_d = lstm(speaker.weighing, torch.cat([v, h_c]), h_d, c_d)
        alpha = (speaker.weights.weight @ h_d + speaker.weights.bias).softmax(0)
        dynamic = alpha[0] * l_bef + alpha[1] * l_diff + alpha[2] * l_aft
        x = speaker.words.weight[word].clamp(min=0)
        h_c, c_c = lstm(speaker.speaking, torch.cat([x, dynamic]), h_c, c_c)
        found.append((speaker.vocabulary.weight @ h_c + speaker.vocabulary.bias, alpha))
    return found


def log_probabilities(detect, model, tokens, row_of):
    """For each caption, the log-probabilities of its words with <END>, and each word's entropy."""
    found = []
    for number, caption in enumerate(tokens.tolist()):
        _, vectors = detect(row_of(number))
        words = caption[: caption.index(3) + 1]
        said = spoken(model.decoder, *vectors, words[:-1])
        logs = [log_softmax(logits, w) for (logits, _), w in zip(said, words[1:], strict=True)]
        entropies = [-sum(a * torch.log(a) for a in alpha) for _, alpha in said]
        found.append((logs, entropies))
    return found


def by_loops(detect, model, tokens=TOKENS, references=1):
    """The three loss terms of two parts; the pairs of the first part are changed.

    `detect`: row of a pair -> both maps, and the three vectors.
    """
    captions = log_probabilities(detect, model, tokens, lambda number: number // references)
    half = len(captions) // 2
    xe = [
        -sum(sum(logs) for logs, _ in part) / sum(len(logs) for logs, _ in part)
        for part in (captions[:half], captions[half:])
    ]
    pairs = len(tokens) // references // 2
    size = sum(sum(sum(a) for a in detect(row)[0]) for row in range(pairs)) / (2 * pairs)
    entropy = sum(sum(entropies) for _, entropies in captions[:half]) / half
    return {"cap": (xe[0] + xe[1]) / 2, "maps": size, "entropy": -entropy}
