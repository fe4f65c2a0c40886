"""VARD against loops: PERL, URD, the detector, loss terms and gradients; and with a transformer decoder."""

from dataclasses import replace

import pytest
import torch

from tests.reference import dynamic, loops
from tests.reference.dynamic import images, layer_normed, make

VARIANTS = pytest.mark.parametrize("variant", ["paper", "released"])


def linear(layer, x):
    return layer.weight @ x + layer.bias


def related(perl, U):
    """Return P, the output of PERL, for each cell of one image."""
    queries, keys, values = (
        [linear(layer, x) for x in U]
        for layer in (perl.attention.query, perl.attention.key, perl.attention.value)
    )
    seen, found = loops.heads_of(queries, keys, values, 2), []
    for i in range(2):
        for j in range(3):
            placed = perl.places.bias
            for di in (-1, 0, 1):
                for dj in (-1, 0, 1):
                    if 0 <= i + di < 2 and 0 <= j + dj < 3:
                        value = values[3 * (i + di) + j + dj]
                        placed = placed + perl.places.weight[:, 0, 1 + di, 1 + dj] * value
            found.append(layer_normed(seen[3 * i + j] + placed + U[3 * i + j], perl.norm))
    return found


def encoded(model, row, variant):
    """Return U, the encoded cells, of both images of a pair."""
    return [[linear(model.encoding[1], x) for x in dynamic.cells(image[row], variant)] for image in images()]


def disentangled(module, U_bef, U_aft):
    """Return P of both images, and the difference D."""
    b, a = related(module.perl, U_bef), related(module.perl, U_aft)
    own = []
    for one, other in ((b, a), (a, b)):
        seen = zip(loops.heads_of(one, other, other, 2), one, strict=True)
        own.append([p - layer_normed(s + p, module.same) for s, p in seen])
    both = [torch.cat(c) for c in zip(*own, strict=True)]
    D = [layer_normed(linear(module.fuse, c), module.norm).clamp(min=0) for c in both]
    return b, a, D


def detector(model, variant, pooled="sum"):
    """Return a function: row of a pair -> both maps, and the three vectors, by loops."""
    detect_ = model.difference

    def detect(row):
        b, a, D = disentangled(detect_.disentangle, *encoded(model, row, variant))
        maps = [dynamic.image_map(detect_.map, own, D) for own in (b, a)]
        l_bef, l_aft = (dynamic.pooled(w, own, pooled) for w, own in zip(maps, (b, a), strict=True))
        both = linear(detect_.fuse, torch.cat([l_bef - l_aft, l_aft - l_bef]))
        return maps, (l_bef, layer_normed(both, detect_.norm).clamp(min=0), l_aft)

    return detect


@pytest.mark.parametrize(("variant", "pooled"), [("paper", "sum"), ("released", "sum"), ("paper", "mean")])
def test_every_term_and_its_gradients_by_loops(variant, pooled):
    model = make("vard", variant, pooled=pooled)
    wanted = dynamic.by_loops(detector(model, variant, pooled), model)
    loops.same_gradients(dict(model.named_parameters()), dynamic.losses(model), wanted)


@VARIANTS
@torch.no_grad()
def test_the_transformer_attends_to_d(variant):
    model = make("vard_transformer", variant)
    found = model.encode(*images())
    for row in range(4):
        D = disentangled(model.difference.disentangle, *encoded(model, row, variant))[2]
        torch.testing.assert_close(found.memory[row], torch.stack(D))
    assert model.terms == ("cap",)


@torch.no_grad()
def test_differing_initially_attends_to_the_cell_that_differs():
    model, before, after = dynamic.begun("vard", "differing")
    found = model.encode(before, after)
    weights = found.maps.sigmoid()[0]
    assert weights[:, 7].min() > 0.5 > 0.05 > weights[:, [i for i in range(20) if i != 7]].mean()
    own, program = model.decoder, dynamic.begun("vard", "program")[0]
    looks, heard = own.look.weight, own.speaking.weight_ih[:, 3:]
    # the common part has no effect, and the rest is ten times as large
    common = torch.nn.functional.layer_norm(model.encoding[1].bias, (64,))
    same = own.begin(replace(found, memory=torch.stack([common, 0 * common, common])[None]))
    torch.testing.assert_close(same.memory[0], program.decoder.look.bias.relu(), atol=1e-5, rtol=0)
    silent = program.decoder.speaking.bias_ih
    torch.testing.assert_close(own.speaking.bias_ih + heard @ common * 2 / 3, silent, atol=1e-4, rtol=0)
    torch.testing.assert_close(looks, 10 * program.decoder.look.weight)


@VARIANTS
@torch.no_grad()
def test_the_maps_are_of_the_before_and_the_after_image(variant):
    model = make("vard", variant)
    found, detect = model.encode(*images()).maps, detector(model, variant)
    wanted = [torch.stack([torch.stack(one) for one in detect(row)[0]]) for row in range(len(found))]
    torch.testing.assert_close(found.sigmoid(), torch.stack(wanted))
