"""CARD and its two loss terms by loops, and its initialisation (docs/methods.md, "CARD")."""

from dataclasses import replace

import pytest
import torch

from models import build
from models.common.grid_embedding import TransformerSizes
from tests.own_settings import settings_of
from tests.random_models import randomise
from tests.reference.loops import added, agree, attend, cross_entropy, decoded, linear, wave

SIZES = TransformerSizes(
    channels=5, grid=(2, 3), vocabulary=9, longest=7, width=8, heads=2, decoder_layers=2, word_width=6
)
TAU = 0.3
VARIANTS = pytest.mark.parametrize("variant", ["paper", "released"])


def make(sizes=SIZES, variant="paper", temperature=TAU, **switches):
    torch.manual_seed(0)
    own = settings_of("card", temperature=temperature)
    return build("card", sizes, own | {"variant": variant, "switches": switches}).double()


def batch(pairs=3):
    random = torch.Generator().manual_seed(1)
    before, after = torch.randn(2, pairs, 5, 2, 3, generator=random, dtype=torch.float64)
    return before, after, torch.tensor([[2, 4, 5, 3, 0], [2, 6, 3, 0, 0], [2, 4, 7, 8, 3]])[:pairs]


def joined(P, name, x, y):
    return linear(P, f"difference.{name}.map", torch.cat([x, y])).clamp(min=0)


def context(P, side, image):
    """Return the context g and the cells x of one image, after the block that both images share."""
    weight, bias = P["encoding.project.weight"][:, :, 0, 0], P["encoding.project.bias"]
    tokens = [P[f"difference.{side}_token"][0, 0]]
    tokens += [weight @ image[:, i, j] + bias for i in range(2) for j in range(3)]
    tokens = [token + place for token, place in zip(tokens, P["difference.positions"], strict=True)]
    name = "difference.own_block"
    g, *x = added(P, f"{name}.norm", tokens, attend(P, f"{name}.attention", tokens, tokens, heads=2))
    return g, x


def distilled(P, before, after, sequential):
    """Return the memory's cells, c_bef, c_aft, delta_bef and delta_aft of one pair."""
    (b_whole, b), (a_whole, a) = context(P, "before", before), context(P, "after", after)
    b_common, a_common = (linear(P, "difference.common", g) for g in (b_whole, a_whole))
    b_own, a_own = linear(P, "difference.before_own", b_whole), linear(P, "difference.after_own", a_whole)
    b_k, a_k = ([joined(P, "local_common", c, x) for x in xs] for c, xs in ((b_common, b), (a_common, a)))
    name = "difference.common_block"
    b_s = added(P, f"{name}.norm", b_k, attend(P, f"{name}.attention", b_k, a_k, heads=2))
    read = b_s if sequential else b_k
    a_s = added(P, f"{name}.norm", a_k, attend(P, f"{name}.attention", a_k, read, heads=2))
    b_local = [joined(P, "before_local", b_own, x - s) for x, s in zip(b, b_s, strict=True)]
    a_local = [joined(P, "after_local", a_own, x - s) for x, s in zip(a, a_s, strict=True)]
    memory = [joined(P, "fuse", x, y) for x, y in zip(b_local, a_local, strict=True)]
    return memory, b_common, a_common, b_own, a_own


def unit(x):
    return x / x.square().sum().sqrt()


def consistency(tau, before, after):
    b, a = [unit(x) for x in before], [unit(x) for x in after]
    S = [[(x * y).sum() / tau for y in a] for x in b]
    rows = [sum(value.exp() for value in row).log() - row[i] for i, row in enumerate(S)]
    columns = [sum(row[i].exp() for row in S).log() - S[i][i] for i in range(len(S))]
    return (sum(rows) / len(S) + sum(columns) / len(S)) / 2


def independence(before, after):
    """Return tr(L J K J) / (B - 1)^2, computed entry by entry."""
    B = len(before)
    K, L = ([[(-(unit(x) - unit(y)).square().sum()).exp() for y in xs] for x in xs] for xs in (before, after))
    J = [[(i == j) - 1 / B for j in range(B)] for i in range(B)]
    every = range(B)
    return (
        sum(L[i][j] * J[j][k] * K[k][m] * J[m][i] for i in every for j in every for k in every for m in every)
        / (B - 1) ** 2
    )


@VARIANTS
def test_the_losses_and_their_gradients_by_loops(variant):
    model = randomise(make(variant=variant))
    with torch.no_grad():
        model.regularisers["con"].temperature.fill_(TAU)
    before, after, tokens = batch()

    def pairs(P):
        return [distilled(P, *pair, variant == "released") for pair in zip(before, after, strict=True)]

    def loops(P):
        found = pairs(P)
        logits = []
        for (memory, *_), caption in zip(found, tokens.tolist(), strict=True):
            words = [P["decoder.embedding.weight"][word] + wave(t, 6) for t, word in enumerate(caption[:-1])]
            words = [linear(P, "decoder.project", word) for word in words]
            logits.append(decoded(P, words, memory, heads=2, layers=2))
        _, b_common, a_common, b_own, a_own = zip(*found, strict=True)
        return {
            "cap": cross_entropy(logits, tokens.tolist()),
            "con": consistency(P["regularisers.con.temperature"], b_common, a_common),
            "ind": independence(b_own, a_own),
        }

    agree(model, loops, before, after, tokens)
    with torch.no_grad():
        expected = torch.stack([torch.stack(each[0]) for each in pairs(dict(model.named_parameters()))])
    torch.testing.assert_close(model.encode(before, after).memory, expected)


def test_one_pair_cannot_vary():
    """For one pair, the equation is 0 / 0; the loss is 0, and gradients are finite."""
    model = randomise(make())
    losses = model.losses(*batch(1))
    assert losses["ind"].item() == 0
    sum(losses.values()).backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize(("value", "kept"), [(0.7, 0.5), (-0.1, 0.001), (0.2, 0.2)])
def test_the_temperature_stays_in_its_bounds(value, kept):
    model = make()
    temperature = model.regularisers["con"].temperature
    assert temperature.item() == pytest.approx(TAU)
    with torch.no_grad():
        temperature.fill_(value)
    model.constrain()
    assert temperature.item() == pytest.approx(kept)


CELLS_20 = replace(SIZES, channels=16, grid=(4, 5), width=64, heads=4)


def begun(kind):
    """Return x - s, x_bef - x_aft and the memory of a pair that differs only in cell 7, (N, D) each.

    The last result is the memory of a pair of equal images.
    """
    model, random = make(CELLS_20, first_weights=kind), torch.Generator().manual_seed(3)
    before = torch.randn(1, 16, 4, 5, generator=random, dtype=torch.float64)
    after = before.clone()
    after[0, :, 1, 2] = torch.randn(16, generator=random, dtype=torch.float64)
    model.difference.after_token.copy_(model.difference.before_token)
    inputs = []
    model.difference.before_local.register_forward_hook(lambda _, given, out: inputs.append(given[1][0]))
    memory = model.encode(before, after).memory[0]
    x_bef, x_aft = (
        model.difference.context(model.difference.before_token, model.encoding(image))[1][0]
        for image in (before, after)
    )
    return inputs[0], x_bef - x_aft, memory, model.encode(before, before).memory[0]


@torch.no_grad()
def test_counterpart_initially_computes_the_difference_of_the_same_cells():
    """The memory of equal images is only a bias."""
    own, difference, memory, alike = begun("counterpart")
    cosine = torch.cosine_similarity(own[7], difference[7], dim=0)
    assert cosine > 0.9
    assert 0.6 < own[7].norm() / difference[7].norm() < 1.0
    lengths = (memory - alike).norm(dim=1)
    others = torch.arange(20) != 7
    assert lengths[7] > 5 * lengths[others].max()
    *_, memory, alike = begun("program")
    lengths = memory.norm(dim=1)
    assert lengths[7] < 2 * lengths[others].max()
    assert alike.norm(dim=1).min() > 0.3 * lengths.max()


@pytest.mark.parametrize("temperature", [0.0, 0.6])
def test_a_temperature_out_of_its_bounds_is_refused(temperature):
    with pytest.raises(ValueError, match=r"temperature must be from 0\.001 to 0\.5"):
        make(temperature=temperature)


@pytest.mark.parametrize(
    ("kept", "terms"),
    [
        ("both", ("cap", "con", "ind")),
        ("consistency", ("cap", "con")),
        ("independence", ("cap", "ind")),
        ("none", ("cap",)),
    ],
)
def test_an_ablation_keeps_the_terms_that_it_names(kept, terms):
    assert tuple(make(terms=kept).terms) == terms
