"""Trained models and recipes whose files were edited, exchanged or damaged are refused by name."""

import math
import re
import shutil
from copy import deepcopy
from dataclasses import replace

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from pipeline.config import recipe_file
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_yaml
from pipeline.weights import trained_model
from pipeline.weights.model_description import Trained
from tests.forged import forge, unhash
from tests.hostile import little_memory
from tests.pipeline.training.test_loop import recipe
from tests.running import refuse

BAD = [..., -1, 10**9, math.nan, "x", []]  # ...: the key is not there


@pytest.fixture
def folder(tmp_path):
    chosen = recipe()
    model = recipe_file.build(chosen, chosen.sizes_for((6, 3, 3), 10, 8))
    place = tmp_path / "data/weights/tabletop/scorer_cbr/1"
    trained_model.save(place, Trained(chosen, 1, (6, 3, 3), 10, 8, 4, 0.5), model.state_dict())
    return place


def test_what_was_saved_is_loaded(folder, capsys):
    model, trained = trained_model.load(folder)
    assert (trained.shape, trained.recipe) == ((6, 3, 3), recipe())
    assert isinstance(next(model.parameters()), torch.nn.Parameter)
    assert capsys.readouterr().err == ""


def places(tree, at=()):
    for key in tree if isinstance(tree, dict) else ():
        yield (*at, key)
        yield from places(tree[key], (*at, key))


def edits(tree, bad):
    """Each key deleted, and with each wrong value: (its path, the tree)."""
    for *parents, last in places(tree):
        for value in bad:
            own = deepcopy(tree)
            branch = own
            for key in parents:
                branch = branch[key]
            if value is ...:
                del branch[last]
            else:
                branch[last] = value
            if own != tree:
                yield (*parents, last), own


def refused(folder):
    try:
        with little_memory():
            trained_model.load(folder)
    except InputError as error:
        return str(error)
    return None


def test_every_edit_of_model_yaml_is_noticed(folder):
    """By its key where the value can't be; forged hashes save nobody whose value no training writes."""
    tree = read_yaml(folder / "model.yaml", "")
    harmless = set()
    for forged, bad in ((False, BAD[:2]), (True, BAD)):
        for place, own in edits(tree, bad):
            (folder / "model.yaml").write_text(yaml.dump(own, Dumper=yaml.CSafeDumper, sort_keys=False))
            if forged and "hashes" not in place:
                forge(folder)
            said = refused(folder)
            if said is None and forged:
                harmless.add(".".join(place))
            else:
                assert said, place
                assert str(folder) in said, place
                assert "\n" not in said
    # the last ones decide nothing once the weights are there
    kept = {"seed", "iteration", "validation", "longest", "vocabulary", "shape", "hashes", "recipe.features"}
    parts = (
        "recipe.train",
        "recipe.loss",
        "recipe.settings",
        "recipe.code",
        "recipe.adapt",
        "recipe.features",
    )
    assert {each for each in harmless if not each.startswith(parts)} <= kept
    del tree["hashes"]
    (folder / "model.yaml").write_text(yaml.dump(tree, Dumper=yaml.CSafeDumper, sort_keys=False))
    assert "model.yaml has no hashes" in refused(folder)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("recipe.sizes.heads", 3, r"model\.yaml: recipe: width 8 is not a multiple of heads \(3\)"),
        ("recipe.sizes.width", "8", r"model\.yaml: recipe\.sizes\.width: "),
        ("recipe.sizes.width", 65536, r"model\.yaml: recipe\.sizes\.width is 65536"),
        ("recipe.sizes.layers", 10**9, r"model\.yaml: recipe\.sizes\.layers is 1000000000"),
        ("recipe.sizes.layers", 2, r"weights\.safetensors does not load \(the tensor "),
        ("recipe.settings.colour", 1, r"model\.yaml: unknown key model\.scorer_cbr\.colour"),
        ("shape", [6, 3], r"model\.yaml: .*shape"),
        ("vocabulary", 10**9, r"model\.yaml: vocabulary is 1000000000"),
        ("vocabulary", 999_999, r"weights\.safetensors does not load \("),
        ("longest", 10**9, r"model\.yaml: longest is 1000000000"),
        ("seed", [1], r"model\.yaml: seed: "),
        ("validation", math.nan, r"model\.yaml: validation is nan"),
    ],
)
def test_an_edited_model_is_refused_by_its_key(folder, path, value, said):
    tree = read_yaml(folder / "model.yaml", "")
    *parents, last = path.split(".")
    branch = tree
    for key in parents:
        branch = branch[key]
    branch[last] = value
    (folder / "model.yaml").write_text(yaml.safe_dump(tree, sort_keys=False))
    forge(folder)
    with pytest.raises(InputError, match=said), little_memory():
        trained_model.load(folder)


def other_weights(folder):
    found = {name: tensor + 1 for name, tensor in load_file(folder / "weights.safetensors").items()}
    save_file(found, folder / "weights.safetensors")


def flipped_bit(folder):
    data = bytearray((folder / "weights.safetensors").read_bytes())
    data[-2] ^= 1
    (folder / "weights.safetensors").write_bytes(data)


def test_other_weights_are_refused_and_weights_without_hashes_noted(folder, tmp_path, capsys):
    for number, change in enumerate((other_weights, flipped_bit)):
        copy = shutil.copytree(folder, tmp_path / str(number))
        change(copy)
        with pytest.raises(InputError, match=r"weights\.safetensors is not the file that .* hashes\.weights"):
            trained_model.load(copy)
        unhash(copy)
        trained_model.load(copy)
        assert f"note: {copy}/model.yaml has no hashes" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["tabletop/rr_cbr/1", "tabletop/scorer_cbr/2", "mine/scorer_cbr/1"])
def test_a_folder_named_after_another_run_is_refused(folder, tmp_path, place):
    shutil.copytree(folder, tmp_path / "anywhere/scorer")
    trained_model.load(tmp_path / "anywhere/scorer")
    copy = shutil.copytree(folder, tmp_path / "data/weights" / place)
    with pytest.raises(InputError, match=f"{place} holds weights of tabletop/scorer_cbr/1"):
        trained_model.load(copy)


def test_the_snapshot_of_an_import_is_not_known(folder, tmp_path):
    trained = trained_model.describe(folder)
    imported = replace(trained, iteration=0, validation=math.nan)
    trained_model.save(tmp_path / "import", imported, load_file(folder / "weights.safetensors"))
    assert math.isnan(trained_model.load(tmp_path / "import")[1].validation)


def test_a_key_that_stands_twice(folder):
    text = (folder / "model.yaml").read_text()
    (folder / "model.yaml").write_text(text + "seed: 1\n")
    with pytest.raises(InputError, match=r'model\.yaml .*line \d+: found duplicate key "seed"'):
        trained_model.load(folder)


def test_a_recipe_of_sizes_that_make_no_model(tmp_path):
    recipe_file.save(tmp_path / "r.yaml", recipe())
    text = (tmp_path / "r.yaml").read_text()
    (tmp_path / "r.yaml").write_text(text.replace("heads: 2", "heads: 3"))
    with pytest.raises(InputError, match=r"r\.yaml is not a recipe \(width 8 is not a multiple of heads"):
        recipe_file.load(tmp_path / "r.yaml")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model", ["scorer_cbr"]),
        ("settings.dropout", math.nan),
        ("sizes.width", "8"),
        ("loss.cv", -1),
        ("train.batch", "four"),
        ("train.iterations", [1]),
        ("train.learning_rate", math.nan),
        ("train.learning_rate", -0.1),
        ("train.unknown", 1),
        ("features.size", math.inf),
        ("code", [1]),
        ("adapt.milestones", ["a"]),
    ],
)
def test_a_recipe_of_wrong_types(tmp_path, key, value):
    recipe_file.save(tmp_path / "r.yaml", recipe())
    tree = yaml.safe_load((tmp_path / "r.yaml").read_text())
    *parents, last = key.split(".")
    branch = tree
    for name in parents:
        branch = branch.setdefault(name, {})
    branch[last] = value
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(tree))
    with pytest.raises(InputError, match=rf"r\.yaml: (unknown key )?{re.escape(key)}") as caught:
        recipe_file.load(tmp_path / "r.yaml")
    assert "\n" not in str(caught.value)
    places = "--seed 1 --pairs p --vocab v --features f --weights w --curves c --provenance p.json"
    refuse(tmp_path, f"train --recipe r.yaml {places}", key)


def test_weights_of_the_laboratory_whose_hashes_are_gone_are_refused(folder):
    unhash(folder)
    with pytest.raises(InputError, match=r"model\.yaml has no hashes"):
        trained_model.load(folder)
