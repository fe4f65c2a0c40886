"""DUDA and the dynamic speaker against loops: maps, vectors, words, every term and its gradients."""

import pytest
import torch

from models.duda.model import LEAST, STEEPNESS
from pipeline.decoding.beam_search import beam_search
from pipeline.decoding.greedy import greedy, greedy_attending
from tests.reference import dynamic
from tests.reference.dynamic import CHANGED, TOKENS, images, make

CASES = pytest.mark.parametrize(
    ("variant", "pooled"), [("paper", "sum"), ("released", "sum"), ("paper", "mean")]
)


def detector(model, variant, pooled):
    """A pair's row -> both maps, and its three vectors, by loops."""
    before, after = images()
    module = model.difference.map

    def detect(row):
        b, a = (dynamic.cells(image[row], variant) for image in (before, after))
        differences = [y - x for x, y in zip(b, a, strict=True)]
        maps = [dynamic.image_map(module, own, differences) for own in (b, a)]
        l_bef, l_aft = (dynamic.pooled(w, own, pooled) for w, own in zip(maps, (b, a), strict=True))
        return maps, (l_bef, l_aft - l_bef, l_aft)

    return detect


@CASES
@torch.no_grad()
def test_maps_and_vectors_by_loops(variant, pooled):
    model = make("duda", variant, pooled=pooled)
    dynamic.same_maps(model, detector(model, variant, pooled))


@CASES
@torch.no_grad()
def test_words_and_weights_by_loops(variant, pooled):
    model = make("duda", variant, pooled=pooled)
    detect = detector(model, variant, pooled)
    words = model.decoder(TOKENS, model.encode(*images()))
    for row, caption in enumerate(TOKENS[:, :-1].tolist()):
        for place, (logits, alpha) in enumerate(dynamic.spoken(model.decoder, *detect(row)[1], caption)):
            torch.testing.assert_close(words.logits[row, place], logits)
            torch.testing.assert_close(words.weights[row, place], alpha)


@CASES
def test_every_term_and_its_gradients_by_loops(variant, pooled):
    model = make("duda", variant, pooled=pooled)
    wanted = dynamic.by_loops(detector(model, variant, pooled), model)
    dynamic.same_gradients(model, dynamic.losses(model), wanted)


def test_several_captions_of_a_pair_by_loops():
    model, more = make("duda"), TOKENS.flip(0)
    tokens = torch.stack([TOKENS, more], 1).flatten(0, 1)
    wanted = dynamic.by_loops(detector(model, "paper", "sum"), model, tokens, references=2)
    dynamic.same_gradients(model, dynamic.losses(model, tokens=tokens), wanted)


def test_both_terms_see_the_pairs_with_a_change_alone():
    model = make("duda")
    found = dynamic.losses(model)
    everyone, nobody = dynamic.losses(model, changed=None), dynamic.losses(model, changed=0 * CHANGED)
    for term in ("maps", "entropy"):
        assert nobody[term] == 0
        assert not torch.isclose(found[term], everyone[term])
        # of which nobody says whether they changed: as those that did
        assert torch.equal(dynamic.losses(model, changed=CHANGED - 1 - CHANGED)[term], everyone[term])
    assert torch.equal(nobody["cap"], found["cap"])


def test_a_word_without_a_weight_has_no_entropy_and_finite_gradients():
    model = make("duda")
    with torch.no_grad():
        model.decoder.weights.bias.copy_(torch.tensor([2000.0, 0.0, 0.0]))
    found = dynamic.losses(model)["entropy"]
    found.backward()
    assert found == 0
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_dropout_is_on_maps_words_and_what_is_read_out():
    """With all of it dropped nothing is left but biases, and what they bring."""
    model = make("duda").train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            assert module.p == 0.5
            module.p = 1.0
    difference = model.encode(*images())
    assert torch.equal(difference.maps, model.difference.map.weigh.bias.expand(4, 2, 6))
    words = model.decoder(TOKENS, difference)
    assert torch.equal(words.logits, model.decoder.vocabulary.bias.expand_as(words.logits))
    assert words.weights.std(1).max() > 0  # the states themselves are not dropped


def test_the_speakers_dropout_is_drawn_anew_at_each_word():
    model = make("duda").train()
    state = model.decoder.begin(model.encode(*images()))
    seen = []
    model.decoder.weighing.register_forward_pre_hook(lambda _, given: seen.append(given[0][:, :4] == 0))
    torch.manual_seed(0)
    for place in range(8):
        model.decoder.step(TOKENS[:, 0], place, state)
    assert len({tuple(each.flatten().tolist()) for each in seen}) > 1


@torch.no_grad()
def test_every_word_has_its_images_maps():
    model = make("duda")
    difference = model.encode(*images())
    found = greedy_attending(model, difference)
    a = difference.maps.sigmoid()
    shares = a / a.sum(-1, keepdim=True)
    assert found.maps.shape == (*found.words.shape, 2, 6)
    for place in range(found.words.shape[1]):
        torch.testing.assert_close(found.maps[:, place], shares.half())


@torch.no_grad()
def test_maps_that_went_dark_can_be_shown():
    model = make("duda").float()
    model.difference.map.weigh.bias.fill_(-300.0)  # whose sigmoid is 0
    maps = greedy_attending(model, model.encode(*images().float())).maps.float()
    torch.testing.assert_close(maps.sum(-1), torch.ones(maps.shape[:3]), rtol=0, atol=1e-2)


@pytest.mark.parametrize(("variant", "barred"), [("paper", (0, 1, 2)), ("released", ())])
@torch.no_grad()
def test_what_decoding_may_write(variant, barred):
    model = make("duda", variant)
    model.decoder.vocabulary.bias[1] = 100.0  # <UNK> is the likeliest word everywhere
    assert model.never == barred
    difference = model.encode(*images())
    for words in (greedy(model, difference), beam_search(model, difference, 2)):
        assert bool((words == 1).any()) == (variant == "released")


def test_its_classifier_is_left_out_and_all_else_learns():
    model = make("duda")
    sum(dynamic.losses(model).values()).backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()] == []


@torch.no_grad()
def test_differing_begins_by_looking_at_the_cell_that_differs():
    model, before, after = dynamic.begun("duda", "differing")
    found = model.encode(before, after)
    weights = found.maps.sigmoid()[0]  # 2 x N
    assert weights[:, 7].min() > 0.9
    assert weights[:, [i for i in range(20) if i != 7]].max() < 0.01
    assert dynamic.begun("duda", "program")[0].encode(before, after).maps.sigmoid()[0].std() < 0.2


@torch.no_grad()
def test_differing_reads_how_long_a_difference_is_by_loops():
    """At least as the map's channels see it: |w x| of half as many w, over their root mean square."""
    model, before, after = dynamic.begun("duda", "differing")
    cells = model.difference.map
    cells.embed.weight[:, :16] = 0  # what the image itself says
    differences = (after - before)[0].flatten(1).T  # N x C
    rows = cells.embed.weight[:, 16:, 0, 0]
    torch.testing.assert_close(rows[0::2], -rows[1::2])
    for image in (0, 1):
        for i, x in enumerate(differences):
            total = 0.0
            for group in range(8):
                seen = differences @ rows[4 * group : 4 * group + 4].T  # N x 4
                size = (seen.square().mean() + 1e-5).sqrt()
                total += sum(max(float(w @ x), 0.0) for w in rows[4 * group : 4 * group + 4]) / size
            wanted = STEEPNESS * (total / 32 - LEAST)
            torch.testing.assert_close(model.encode(before, after).maps[0, image, i], wanted)
