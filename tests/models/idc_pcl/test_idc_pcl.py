"""IDC-PCL's equations against loops, in both variants: embeddings, transformers, tasks, captioning."""

import math

import pytest
import torch

import models
from models.common.trainable import Labels
from models.idc_pcl.network import positions
from models.idc_pcl.pretraining import ClassPairs
from tests.random_models import randomise
from tests.reference import pcl
from tests.reference.pcl import SIZES, captioner, captions, cosine, hide, images, joint, masks, pretraining

VARIANTS = pytest.mark.parametrize("variant", ["paper", "released"])


@VARIANTS
def test_the_positions_by_loops(variant):
    """To the last bit but one: angles in float32 are off by 4e-6 at 80."""
    wanted = [[pcl.position(p, c, variant, 512) for c in range(512)] for p in range(80)]
    found = positions(80, 512, pcl.switches_of(variant))
    assert found.dtype == torch.float32
    assert (found.double() - torch.tensor(wanted, dtype=torch.float64)).abs().max() < 6e-8


@VARIANTS
@torch.no_grad()
def test_mlm_by_loops(variant, monkeypatch):
    model, tokens = pretraining(variant), captions(2)
    before, after = images(2), images(2, seed=3)
    read = hide(tokens)
    chosen = masks(monkeypatch, tokens, read)
    given = model.encoding(before), model.encoding(after), tokens
    found = model.losses_of(*given, labels=Labels(torch.tensor([1, 0]), "mlm"))
    losses, right = [], []
    for row in range(2):
        cells = pcl.pooled(before[row]), pcl.pooled(after[row])
        _, words = joint(model, *cells, read[row].tolist(), variant)
        for p in chosen[row].nonzero()[:, 0].tolist():
            logits = pcl.logits(model.difference, words[1 + p])
            losses.append(-logits.log_softmax(-1)[tokens[row, p]].item())
            right.append(float(logits.argmax() == tokens[row, p]))
    assert found["mlm"].item() == pytest.approx(sum(losses) / len(losses), rel=1e-5)
    assert found["mlm_accuracy"].item() == pytest.approx(sum(right) / len(right))
    assert set(found) == {"mlm", "mlm_accuracy"}


@VARIANTS
@torch.no_grad()
def test_mvcl_by_loops(variant, monkeypatch):
    model, tokens = pretraining(variant), captions(2)
    before, after = images(2), images(2, seed=3)
    hidden = torch.zeros(2, 2, 6, dtype=torch.bool)
    hidden[0, 1, 2] = hidden[0, 1, 5] = hidden[1, 0, 0] = True
    masks(monkeypatch, tokens, tokens, hidden)
    given = model.encoding(before), model.encoding(after), tokens
    found = model.losses_of(*given, labels=Labels(torch.tensor([1, 0]), "mvcl"))
    p, x = {}, {}
    for row in range(2):
        sides = [pcl.pooled(before[row]), pcl.pooled(after[row])]
        shown = [
            [cell * (not hidden[row, side, i]) for i, cell in enumerate(sides[side])] for side in range(2)
        ]
        out, _ = joint(model, *shown, tokens[row].tolist(), variant)
        for side in range(2):
            for i in range(6):
                p[row, side, i] = pcl.predicted(model, out[7 * side + 1 + i], variant)
                x[row, side, i] = sides[side][i]
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
    assert found["mvcl"].item() == pytest.approx(sum(losses) / 3, rel=1e-5)
    assert found["mvcl_rank"].item() == pytest.approx(sum(ranks) / 3 / 2)


@VARIANTS
@torch.no_grad()
def test_fda_by_loops(variant):
    model, tokens = pretraining(variant), captions(9)
    before, after = images(3), images(3, seed=3)
    given = model.encoding(before), model.encoding(after), tokens
    changed = torch.tensor([1, 0, -1])
    found = model.losses_of(*given, labels=Labels(changed, "fda"))
    losses, right = [], []
    for row in range(3):
        q = []
        cells = pcl.pooled(before[row]), pcl.pooled(after[row])
        memory = pcl.encoded(model.difference, *cells, variant)
        for caption in tokens[3 * row : 3 * row + 3].tolist():  # three are as good as seven
            out, words = joint(model, *cells, caption, variant, memory)
            q.append(cosine((out[0] + out[7]) / 2, words[0]))
        e = [math.exp(each / 0.6) for each in q]
        losses.append(-math.log(e[0] / sum(e)))
        right.append(float(max(q) == q[0]))
    assert found["fda"].item() == pytest.approx(sum(losses) / 3, rel=1e-5)
    assert found["fda_accuracy_change"].item() == pytest.approx((right[0] + right[2]) / 2)
    assert found["fda_accuracy_no_change"].item() == pytest.approx(right[1])


@VARIANTS
@torch.no_grad()
def test_the_captioning_by_loops(variant, monkeypatch):
    """Image tokens see images, a word all of them and the words up to itself; two captions of each pair."""
    model, tokens = captioner(variant), captions(4)
    before, after = images(2), images(2, seed=3)
    read = hide(tokens)
    chosen = masks(monkeypatch, tokens, read)
    given = model.encoding(before), model.encoding(after), tokens
    found = model.losses_of(*given, labels=Labels(torch.tensor([1, 0])))
    words, judged = [], []
    for row in range(4):
        net, pair = model.difference, row // 2
        cells = pcl.pooled(before[pair]), pcl.pooled(after[pair])
        memory = pcl.encoded(net, *cells, variant)
        text = pcl.word_tokens(net, read[row].tolist(), variant)
        out = pcl.transformer(net.cross, memory + text, variant, lambda i, j: j < 14 or j <= i)
        for p in chosen[row].nonzero()[:, 0].tolist():
            logits = pcl.logits(net, out[14 + p])
            words.append(-logits.log_softmax(-1)[tokens[row, p]].item())
        if row % 2 == 0:
            judged.append(-model.judge(torch.cat([out[0], out[7]])).log_softmax(-1)[1 - pair].item())
    parts = (1, 1) if variant == "released" else (len(words), 2)
    assert found["cap"].item() == pytest.approx(sum(words) / parts[0], rel=1e-5)
    assert found["judge"].item() == pytest.approx(sum(judged) / parts[1], rel=1e-5)
    unknown = model.losses_of(*given, labels=Labels(torch.tensor([1, -1])))
    assert unknown["judge"].item() == pytest.approx(judged[0], rel=1e-5)
    alone = captioner(variant, distractor_judging=False)
    assert alone.terms == ("cap",)
    assert not hasattr(alone, "judge")


def test_tasks_and_their_parts():
    assert pretraining().terms == ("mlm", "mvcl", "fda")
    assert pretraining(tasks="mlm_mvcl").terms == ("mlm", "mvcl")
    assert pretraining(tasks="mlm").terms == ("mlm",)
    assert not hasattr(pretraining(tasks="mlm"), "cell_head")
    with pytest.raises(ValueError, match=r"switches\.tasks must be all or mlm_mvcl or mlm, not 'fda'"):
        pretraining(tasks="fda")


def test_both_phases_have_one_network():
    first, second = pretraining().difference.state_dict(), captioner().difference.state_dict()
    assert {name: x.shape for name, x in first.items()} == {name: x.shape for name, x in second.items()}
    without = models.build("idc_pcl_no_pretrain", SIZES, pcl.settings("idc_pcl_no_pretrain", "paper", {}))
    assert without.state_dict().keys() == captioner().state_dict().keys()


@VARIANTS
@torch.no_grad()
def test_class_pairs_by_loops(variant):
    """NABirds': the classes of all images, whether both are of one, and the contrast of every two images."""
    model = pretraining(variant)
    net, task = model.difference, randomise(ClassPairs(SIZES, 4).double())
    before, after = images(2), images(2, seed=3)
    classes, same = torch.tensor([[1, 3], [1, 0]]), torch.tensor([1, 0])
    found = task(net, model.encoding(before), model.encoding(after), classes, same)
    c, losses = {}, [[], []]
    for row in range(2):
        sides = pcl.pooled(before[row]), pcl.pooled(after[row])
        singles = [
            pcl.transformer(net.single, pcl.image_tokens(net, cells, side, variant), variant, pcl.every)
            for side, cells in enumerate(sides)
        ]
        for side in range(2):
            c[row, side] = singles[side][0]
            logits = task.classifier(singles[side][0]).log_softmax(-1)
            losses[0].append(-logits[classes[side, row]].item())
        both = pcl.transformer(net.pair, singles[0] + singles[1], variant, pcl.every)
        losses[1].append(-task.aligner(torch.cat([both[0], both[7]])).log_softmax(-1)[same[row]].item())
    contrast = 0.0
    for i in c:
        for j in c:
            cos = cosine(c[i], c[j])
            agree = classes[i[1], i[0]] == classes[j[1], j[0]]
            contrast += (1 - cos if agree else max(0.0, cos - 0.4)) / 16
    wanted = sum(losses[0]) / 4 + sum(losses[1]) / 2 + contrast
    assert found["class_pairs"].item() == pytest.approx(wanted, rel=1e-5)
