"""IDC-PCL's pre-training on CUB's single images against loops, and where NABirds' task joins the others."""

import math

import pytest
import torch

from models.common.trainable import Labels
from models.idc_pcl.pretraining import CLASSES, ClassPairs, masked_cells
from tests.random_models import randomise
from tests.reference import pcl
from tests.reference.pcl import SIZES, captions, cosine, images, joint, masks, pretraining

VARIANTS = pytest.mark.parametrize("variant", ["paper", "released"])
UNKNOWN = torch.tensor([-1, -1])


def of_images(variant, tokens, task):
    """A model, its losses on two single images, and each one's cells and V~ by loops."""
    model, shown = pretraining(variant, single=True), images(2)
    encoded = model.encoding(shown)
    found = model.losses_of(encoded, encoded, tokens, labels=Labels(UNKNOWN, task))
    cells = [pcl.pooled(image) for image in shown]
    return model, found, cells, [pcl.encoded_alone(model.difference, own, variant) for own in cells]


@VARIANTS
@torch.no_grad()
def test_mvcl_of_single_images(variant, monkeypatch):
    """M and U lie in the 49 cells of each image, here 6."""
    tokens = captions(2)
    hidden = torch.zeros(2, 1, 6, dtype=torch.bool)
    hidden[0, 0, 2] = hidden[0, 0, 5] = hidden[1, 0, 0] = True
    masks(monkeypatch, tokens, tokens, hidden)
    model, found, cells, _ = of_images(variant, tokens, "mvcl")
    p, x = {}, {}
    for row in range(2):
        shown = [cell * (not hidden[row, 0, i]) for i, cell in enumerate(cells[row])]
        memory = pcl.encoded_alone(model.difference, shown, variant)
        out, _ = joint(model, None, None, tokens[row].tolist(), variant, memory)
        for i in range(6):
            p[row, i], x[row, i] = pcl.predicted(model, out[1 + i], variant), cells[row][i]
    masked, others = ([key for key in p if hidden[key[0], 0, key[1]] == kind] for kind in (True, False))
    losses = []
    for i in masked:
        negatives = [cosine(p[i], x[k]) for k in others]
        if variant == "released":
            negatives = [cosine(p[i], x[j]) for j in masked if j != i] + [cosine(p[i], p[k]) for k in others]
        right = math.exp(cosine(p[i], x[i]) / 0.7)
        losses.append(-math.log(right / (right + sum(math.exp(s / 0.7) for s in negatives))))
    assert found["mvcl"].item() == pytest.approx(sum(losses) / 3, rel=1e-5)


def test_every_cell_of_a_single_image_may_be_hidden():
    torch.manual_seed(0)
    hidden = masked_cells(torch.Size((2000, 1, 6)), 0.15, torch.device("cpu"))
    assert hidden.shape == (2000, 1, 6)
    assert hidden.any(-1).all()
    assert hidden.float().mean((0, 1)).min() > 0.1


@torch.no_grad()
def test_nabirds_is_a_fourth_task():
    model = pretraining(extra_data="nabirds")
    assert model.terms == ("mlm", "mvcl", "fda", "class_pairs")
    assert model.measures[-2:] == ("class_accuracy", "same_accuracy")
    before, after = model.encoding(images(2)), model.encoding(images(2, seed=3))
    classes, nothing = torch.tensor([[1, 3], [1, 0]]), torch.zeros(2, 1, dtype=torch.int64)
    found = model.losses_of(before, after, nothing, labels=Labels(UNKNOWN, "class_pairs", classes))
    head = randomise(ClassPairs(SIZES, CLASSES).double())
    head.load_state_dict(model.class_pairs.state_dict())
    same = torch.tensor([1, 0])  # both images of the first pair are of class 1
    wanted = head(model.difference, before, after, classes, same)
    assert found == wanted
    assert model.class_pairs.classifier.out_features == CLASSES == 555


@pytest.mark.parametrize("extra", ["none", "cub"])
def test_no_other_switch_has_it(extra):
    assert not hasattr(pretraining(extra_data=extra), "class_pairs")
    assert pretraining(extra_data="cub_nabirds", single=True).terms == ("mlm", "mvcl", "fda")
    ablated = pretraining(extra_data="cub_nabirds", tasks="mlm")
    assert ablated.terms == ("mlm", "class_pairs")
