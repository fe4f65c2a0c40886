"""MCCFormers-D and -S by loops, and their initialisation (docs/methods.md, "MCCFormers")."""

import math
from dataclasses import replace

import pytest
import torch

from models import build
from models.mccformers.model import MccSizes
from tests.own_settings import settings_of
from tests.random_models import randomise
from tests.reference.loops import added, agree, attend, cross_entropy, decoded, fed, linear, maps_of, wave

SIZES = MccSizes(
    channels=5, grid=(2, 3), vocabulary=9, longest=7, width=8, heads=2, layers=2, decoder_layers=2
)
NAMES = ("mccformers_d", "mccformers_s")
EVERY = pytest.mark.parametrize("name", NAMES)


def make(name, sizes=SIZES, variant="paper", dropout=0.0, default_dropout=0.0, **switches):
    torch.manual_seed(0)
    own = settings_of(name, dropout=dropout, default_dropout=default_dropout)
    return build(name, sizes, own | {"variant": variant, "switches": switches}).double()


def batch():
    random = torch.Generator().manual_seed(1)
    before, after = torch.randn(2, 2, 5, 2, 3, generator=random, dtype=torch.float64)
    return before, after, torch.tensor([[2, 4, 5, 3, 0], [2, 4, 7, 8, 3]])


def encoded(P, image):
    """Return an image's cells, row by row: a linear map plus the embeddings of column and row."""
    weight, bias = P["encoding.project.weight"][:, :, 0, 0], P["encoding.project.bias"]
    return [
        weight @ image[:, i, j]
        + bias
        + torch.cat([P["encoding.column.weight"][j], P["encoding.row.weight"][i]])
        for i in range(2)
        for j in range(3)
    ]


def layer(P, number, xs, memory):
    name = f"difference.layers.{number}"
    ys = added(P, f"{name}.norms.0", xs, attend(P, f"{name}.attention", xs, memory, heads=2))
    return added(P, f"{name}.norms.1", ys, fed(P, f"{name}.feed_forward", ys))


def memory_of(P, name, before, after):
    b, a = encoded(P, before), encoded(P, after)
    if name == "mccformers_d":
        for number in range(2):
            b, a = layer(P, number, b, a), layer(P, number, a, b)  # of the same inputs
    else:
        images = P["difference.images.weight"]
        u = [x + images[0] for x in b] + [x + images[1] for x in a]
        for number in range(2):
            u = layer(P, number, u, u)
        b, a = u[:6], u[6:]
    return [torch.cat(both) for both in zip(b, a, strict=True)]


@EVERY
def test_the_loss_and_its_gradients_by_loops(name):
    model = randomise(make(name, variant="released"))  # it differs only in initialisation and decoding
    before, after, tokens = batch()

    def loops(P):
        logits = []
        for b, a, caption in zip(before, after, tokens.tolist(), strict=True):
            words = [P["decoder.embedding.weight"][word] + wave(t, 16) for t, word in enumerate(caption[:-1])]
            logits.append(decoded(P, words, memory_of(P, name, b, a), heads=2, layers=2))
        return {"cap": cross_entropy(logits, tokens.tolist())}

    agree(model, loops, before, after, tokens)
    with torch.no_grad():
        found = model.encode(before, after).memory
        P = dict(model.named_parameters())
        expected = [torch.stack(memory_of(P, name, b, a)) for b, a in zip(before, after, strict=True)]
    torch.testing.assert_close(found, torch.stack(expected))
    assert found.shape == (2, 6, 16)  # one token for a cell of both images


@EVERY
@torch.no_grad()
def test_the_alignment_is_of_after_cells_to_before_cells_in_the_last_layer(name):
    model = randomise(make(name))
    P, (before, after, _) = dict(model.named_parameters()), batch()
    found = model.encode(before, after).alignment([1])[0]
    b, a = encoded(P, before[1]), encoded(P, after[1])
    if name == "mccformers_d":
        b, a = layer(P, 0, b, a), layer(P, 0, a, b)
    else:
        images = P["difference.images.weight"]
        u = [x + images[0] for x in b] + [x + images[1] for x in a]
        u = layer(P, 0, u, u)
        b, a = u[:6], u[6:]
    queries, keys = (
        [linear(P, f"difference.layers.1.attention.{part}", x) for x in cells]
        for part, cells in (("query", a), ("key", b))
    )
    torch.testing.assert_close(found, maps_of(queries, keys, 2))


@EVERY
@torch.no_grad()
def test_opposed_initially_computes_a_difference(name):
    """For two equal images, keys and values are only biases."""
    image, other = batch()[0]
    image, other = image[None], other[None]
    for kind, alike in (("opposed", True), ("program", False)):
        model = make(name, first_weights=kind)
        for layer in model.decoder.layers:
            attention, memory = layer.cross_attention, model.encode(image, image).memory
            for each in (attention.key, attention.value):
                assert (each(memory).abs().max() < 1e-12) == alike
        scale = layer.cross_attention.value.weight.abs().max() / math.sqrt(6 / (4 * 16))
        gain = {"mccformers_d": 12, "mccformers_s": 4}[name] if alike else 1
        assert 0.9 * gain < scale <= gain
    there, back = (attention.value(model.encode(*pair).memory) for pair in ((image, other), (other, image)))
    assert (there - back).abs().max() > 1e-3


@torch.no_grad()
def test_opposed_keeps_how_much_a_cell_differs():
    sizes, random = replace(SIZES, channels=16, grid=(4, 5), width=64), torch.Generator().manual_seed(3)
    before = torch.randn(1, 16, 4, 5, generator=random, dtype=torch.float64)
    before[..., 0::2] *= 0.2
    after = before + 0.1 * torch.randn(1, 16, 4, 5, generator=random, dtype=torch.float64)
    after[0, :, 1, 2] = torch.randn(16, generator=random, dtype=torch.float64)
    found = {}
    for kind in ("opposed", "program"):
        model = make("mccformers_d", sizes, first_weights=kind)
        shown = (model.encoding(before) - model.encoding(after))[0].norm(dim=1)
        b, a = model.encode(before, after).memory[0].chunk(2, 1)
        left = (b - a).norm(dim=1)
        others = [i for i in range(20) if i != 7]
        found[kind] = left[7] / left[others].mean() / (shown[7] / shown[others].mean())
    assert found["opposed"] > 0.9 > 0.7 > found["program"]


@EVERY
def test_where_dropout_is(name):
    """Dropout is 0.5; for words, and in the encoder of S, it is torch's default of 0.1."""
    model = make(name, dropout=0.5, default_dropout=0.1)
    found = {
        place: module.p for place, module in model.named_modules() if isinstance(module, torch.nn.Dropout)
    }
    encoder = 0.1 if name == "mccformers_s" else 0.5
    assert found.pop("decoder.dropout") == 0.1
    assert {p for place, p in found.items() if place.startswith("decoder")} == {0.5}
    assert {p for place, p in found.items() if place.startswith("difference")} == {encoder}
    assert [block.attention.dropout for block in model.difference.layers] == [encoder, encoder]
    assert model.decoder.vocabulary.dropout == 0.5
    x = torch.ones(1, 16, dtype=torch.float64)
    kept = torch.stack([model.decoder.vocabulary.train()(x)[0] for _ in range(9)])
    assert kept.std(0).max() > 0
    assert torch.equal(
        model.decoder.vocabulary.eval()(x), torch.nn.Linear.forward(model.decoder.vocabulary, x)
    )


@EVERY
def test_barred_tokens(name):
    assert make(name).never == (0, 1, 2)
    assert make(name, barred="none").never == make(name, variant="released").never == ()
