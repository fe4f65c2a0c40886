"""Kinds of change of training pairs: stated, read from captions, or refused by name."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.common.trainable import KINDS
from pipeline.config.recipe_file import Recipe
from pipeline.datasets.schema import CHANGE_TYPES, NO_CHANGE, Pair
from pipeline.io.errors import InputError
from pipeline.training.kinds import number_of, with_kinds
from tests import killed
from tests.killed import KilledError
from tests.tabletop_pairs import pairs_of

SIZES = {"width": 8, "heads": 2, "layers": 1, "decoder_layers": 1, "word_width": 4, "router": 4, "slots": 3}
TRAIN = {"iterations": 12, "batch": 4, "references": 2, "learning_rate": 1e-2, "schedule": "poly"}
TRAIN |= {"validate_every": 4, "exchange": True, "precision": "float32", "compile": "off"}
SETTINGS = {"dropout": 0.1, "temperature": 0.5, "kinds": list(KINDS), "variant": "released", "switches": {}}
LOSS = {"cls": 0.1, "type": 0.1, "con": 0.01, "dis": 0.1}
LOSSES = {"dirl_medic": {"dirl": 0.03, "ccr": 0.05}, "scorer_medic": {"cv": 0.1, "cbr": 0.001}}


def test_the_numbers_are_those_of_the_datasets_kinds():
    assert (*CHANGE_TYPES, NO_CHANGE) == KINDS


def pair(captions, kind=None):
    return Pair("p.png", "p", "train", "a.png", "b.png", captions, kind)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 30))
def test_kinds_are_read_from_captions_of_coloured_solids(number, seed):
    for each in pairs_of(number, seed):
        unknown = replace(each, change_type=None)
        assert with_kinds([unknown], KINDS)[0].change_type == each.change_type
        assert number_of(unknown) == -1
        assert KINDS[number_of(each)] == each.change_type


def test_other_models_need_no_kinds():
    pairs = [pair(("a cat",))]
    assert with_kinds(pairs, ()) == pairs


@pytest.mark.parametrize(
    ("captions", "kind"),
    [
        (("the dog left",), None),
        (("the dog left",), "change"),
        (("the red ball moved", "the red ball is gone"), None),
        (("the red ball moved", "nothing changed"), None),
        (("nothing changed",), "change"),
        (("the red ball",), None),
        ((), None),
    ],
)
def test_an_unknown_kind_is_refused_by_the_pairs_name(captions, kind):
    with pytest.raises(InputError, match=r"'p\.png' has an unknown kind of change"):
        with_kinds([pair(("nothing changed",)), pair(captions, kind)], KINDS)


def test_a_kind_without_an_expert_is_refused():
    with pytest.raises(InputError, match=r"'p\.png' has the kind of change 'move'"):
        with_kinds([pair(("the red ball moved",))], ("add", "drop", "none"))


@pytest.mark.slow
@pytest.mark.parametrize("name", LOSSES)
def test_a_killed_run_of_medic_gives_the_same_bits(prepared, tmp_path, name):
    own = SETTINGS | ({"alpha": 0.003} if name == "dirl_medic" else {})
    recipe = Recipe("tabletop", name, own, SIZES, LOSS | LOSSES[name], {"train": TRAIN}, {}, {})

    def train(folder, scores, killed_at=None):
        return killed.train(prepared, folder, recipe, None, 1, scores, killed_at)

    whole, model = train(tmp_path / "whole", [1.0, 3.0, 2.0])
    with pytest.raises(KilledError):
        train(tmp_path / "killed", [1.0, 3.0, 2.0], 2)
    resumed, again = train(tmp_path / "killed", [3.0, 2.0])
    weights = again.state_dict()
    assert all(torch.equal(value, weights[key]) for key, value in model.state_dict().items())
    assert (whole.losses, whole.validation) == (resumed.losses, resumed.validation)
    assert {"cls", "type", "con", "dis"} <= whole.losses[0].keys()
