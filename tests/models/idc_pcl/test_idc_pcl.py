"""IDC-PCL's equations against loops, in both variants: embeddings, transformers, tasks, captioning."""

import math
from functools import partial

import pytest
import torch

from models.common.trainable import Labels
from models.idc_pcl.network import positions
from models.idc_pcl.pretraining import CLASSES, ClassPairs
from tests.random_models import randomise
from tests.reference import pcl
from tests.reference.pcl import (
    SIZES,
    built,
    captioner,
    captions,
    cosine,
    hide,
    images,
    joint,
    masks,
    pretraining,
)

VARIANTS = pytest.mark.parametrize("variant", ["paper", "released"])


@VARIANTS
def test_the_positions_by_loops(variant):
    """Angles in float32 would have an error of 4e-6 at position 80."""
    wanted = [[pcl.position(p, c, variant, 512) for c in range(512)] for p in range(80)]
    found = positions(80, 512, pcl.switches_of(variant))
    assert found.dtype == torch.float32
    assert (found.double() - torch.tensor(wanted, dtype=torch.float64)).abs().max() < 6e-8


def losses(model, tokens, task, changed=(1, 0), count=2):
    """Return the model's losses of a batch, and the cells of both images of each pair."""
    sides = images(count), images(count, seed=3)
    found = model.losses_of(*map(model.encoding, sides), tokens, labels=Labels(torch.tensor(changed), task))
    return found, [tuple(map(pcl.pooled, pair)) for pair in zip(*sides, strict=True)]


@VARIANTS
@torch.no_grad()
def test_mlm_by_loops(variant, monkeypatch):
    model, tokens = pretraining(variant), captions(2)
    read = hide(tokens)
    chosen = masks(monkeypatch, tokens, read)
    found, cells = losses(model, tokens, "mlm")
    wanted, right = [], []
    for row in range(2):
        memory = pcl.encoded(model.difference, *cells[row], variant)
        _, words = joint(model, memory, read[row].tolist(), variant)
        for p in chosen[row].nonzero()[:, 0].tolist():
            logits = pcl.logits(model.difference, words[1 + p])
            wanted.append(-logits.log_softmax(-1)[tokens[row, p]].item())
            right.append(float(logits.argmax() == tokens[row, p]))
    assert found["mlm"].item() == pytest.approx(sum(wanted) / len(wanted), rel=1e-5)
    assert found["mlm_accuracy"].item() == pytest.approx(sum(right) / len(right))
    assert set(found) == {"mlm", "mlm_accuracy"}


@VARIANTS
@torch.no_grad()
def test_mvcl_by_loops(variant, monkeypatch):
    model, tokens, hidden = pretraining(variant), captions(2), torch.zeros(2, 2, 6, dtype=torch.bool)
    hidden[0, 1, 2] = hidden[0, 1, 5] = hidden[1, 0, 0] = True
    masks(monkeypatch, tokens, tokens, hidden)
    found, cells = losses(model, tokens, "mvcl")
    encode = partial(pcl.encoded, model.difference, variant=variant)
    loss, rank = pcl.mvcl(model, cells, hidden, tokens, variant, encode)
    assert found["mvcl"].item() == pytest.approx(loss, rel=1e-5)
    assert found["mvcl_rank"].item() == pytest.approx(rank)


@VARIANTS
@torch.no_grad()
def test_mvcl_of_single_images_by_loops(variant, monkeypatch):
    """Pairs of CUB are single images, so all cells belong to one image."""
    model, tokens, hidden = built(variant, "images"), captions(2), torch.zeros(2, 1, 6, dtype=torch.bool)
    hidden[0, 0, 2] = hidden[0, 0, 5] = hidden[1, 0, 0] = True
    masks(monkeypatch, tokens, tokens, hidden)
    encoded = model.encoding(images(2))
    found = model.losses_of(encoded, encoded, tokens, labels=Labels(torch.tensor([-1, -1]), "mvcl"))
    encode = partial(pcl.encoded_alone, model.difference, variant=variant)
    cells = [(pcl.pooled(image),) for image in images(2)]
    loss, _ = pcl.mvcl(model, cells, hidden, tokens, variant, encode)
    assert found["mvcl"].item() == pytest.approx(loss, rel=1e-5)


@VARIANTS
@torch.no_grad()
def test_fda_by_loops(variant):
    model, tokens = pretraining(variant), captions(9)
    found, cells = losses(model, tokens, "fda", (1, 0, -1), 3)
    wanted, right = [], []
    for row in range(3):
        q, memory = [], pcl.encoded(model.difference, *cells[row], variant)
        for caption in tokens[3 * row : 3 * row + 3].tolist():  # three captions in place of seven
            out, words = joint(model, memory, caption, variant)
            q.append(cosine((out[0] + out[7]) / 2, words[0]))
        e = [math.exp(each / 0.6) for each in q]
        wanted.append(-math.log(e[0] / sum(e)))
        right.append(float(max(q) == q[0]))
    assert found["fda"].item() == pytest.approx(sum(wanted) / 3, rel=1e-5)
    assert found["fda_accuracy_change"].item() == pytest.approx((right[0] + right[2]) / 2)
    assert found["fda_accuracy_no_change"].item() == pytest.approx(right[1])


@VARIANTS
@torch.no_grad()
def test_the_captioning_by_loops(variant, monkeypatch):
    """Image tokens see images; a word sees images and the words up to itself. Two captions of each pair."""
    model, tokens = captioner(variant), captions(4)
    read = hide(tokens)
    chosen = masks(monkeypatch, tokens, read)
    found, cells = losses(model, tokens, "")
    words, judged, net = [], [], model.difference
    for row in range(4):
        memory = pcl.encoded(net, *cells[row // 2], variant)
        text = pcl.word_tokens(net, read[row].tolist(), variant)
        out = pcl.transformer(net.cross, memory + text, variant, lambda i, j: j < 14 or j <= i)
        for p in chosen[row].nonzero()[:, 0].tolist():
            words.append(-pcl.logits(net, out[14 + p]).log_softmax(-1)[tokens[row, p]].item())
        if row % 2 == 0:
            logits = model.judge(torch.cat([out[0], out[7]]))
            judged.append(-logits.log_softmax(-1)[1 - row // 2].item())
    parts = (1, 1) if variant == "released" else (len(words), 2)
    assert found["cap"].item() == pytest.approx(sum(words) / parts[0], rel=1e-5)
    assert found["judge"].item() == pytest.approx(sum(judged) / parts[1], rel=1e-5)
    unknown, _ = losses(model, tokens, "", (1, -1))
    assert unknown["judge"].item() == pytest.approx(judged[0], rel=1e-5)


def test_switches_choose_tasks_and_modules():
    every = ("mlm", "mvcl", "fda")
    for terms, phase, switches in (
        (every, "pretrain", {}),
        (every[:2], "pretrain", {"tasks": "mlm_mvcl"}),
        (every[:1], "pretrain", {"tasks": "mlm"}),
        ((*every, "class_pairs"), "pretrain", {"extra_data": "nabirds"}),
        (("mlm", "class_pairs"), "pretrain", {"extra_data": "cub_nabirds", "tasks": "mlm"}),
        (every, "pretrain", {"extra_data": "cub"}),
        (every, "images", {"extra_data": "cub_nabirds"}),
        (("cap", "judge"), None, {}),
        (("cap",), None, {"distractor_judging": False}),
    ):
        model = built("paper", phase, **switches)
        assert model.terms == terms
        parts = {"cell_head": "mvcl", "class_pairs": "class_pairs", "judge": "judge"}
        assert all(hasattr(model, part) == (term in terms) for part, term in parts.items())
    with pytest.raises(ValueError, match=r"switches\.tasks must be all or mlm_mvcl or mlm, not 'fda'"):
        pretraining(tasks="fda")


def test_all_phases_have_one_network():
    first, second = pretraining().difference.state_dict(), captioner().difference.state_dict()
    assert {name: x.shape for name, x in first.items()} == {name: x.shape for name, x in second.items()}
    assert built(name="idc_pcl_no_pretrain").state_dict().keys() == captioner().state_dict().keys()


@VARIANTS
@torch.no_grad()
def test_class_pairs_by_loops(variant):
    """The loss has three terms: each image's class, equality of a pair's classes, contrast of all images."""
    model = pretraining(variant)
    net, task = model.difference, randomise(ClassPairs(SIZES, 4).double())
    before, after = images(2), images(2, seed=3)
    classes, same = torch.tensor([[1, 3], [1, 0]]), torch.tensor([1, 0])
    found = task(net, model.encoding(before), model.encoding(after), classes)
    c, losses = {}, [[], []]
    for row in range(2):
        tokens = [
            pcl.image_tokens(net, pcl.pooled(image[row]), side, variant)
            for side, image in enumerate((before, after))
        ]
        singles = [pcl.transformer(net.single, own, variant) for own in tokens]
        for side in range(2):
            c[row, side] = singles[side][0]
            logits = task.classifier(singles[side][0]).log_softmax(-1)
            losses[0].append(-logits[classes[side, row]].item())
        both = pcl.transformer(net.pair, singles[0] + singles[1], variant)
        losses[1].append(-task.aligner(torch.cat([both[0], both[7]])).log_softmax(-1)[same[row]].item())
    contrast = 0.0
    for i in c:
        for j in c:
            cos = cosine(c[i], c[j])
            agree = classes[i[1], i[0]] == classes[j[1], j[0]]
            contrast += (1 - cos if agree else max(0.0, cos - 0.4)) / 16
    wanted = sum(losses[0]) / 4 + sum(losses[1]) / 2 + contrast
    assert found["class_pairs"].item() == pytest.approx(wanted, rel=1e-5)


@torch.no_grad()
def test_class_pairs_are_a_task_of_the_pretraining():
    model = pretraining(extra_data="nabirds")
    assert model.measures[-2:] == ("class_accuracy", "same_accuracy")
    before, after = model.encoding(images(2)), model.encoding(images(2, seed=3))
    classes, nothing = torch.tensor([[1, 3], [1, 0]]), torch.zeros(2, 1, dtype=torch.int64)
    labels = Labels(torch.tensor([-1, -1]), "class_pairs", classes)
    found = model.losses_of(before, after, nothing, labels=labels)
    assert found == model.class_pairs(model.difference, before, after, classes)
    assert model.class_pairs.classifier.out_features == CLASSES == 555
