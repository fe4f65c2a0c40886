"""Trained models whose files were edited, exchanged or damaged are refused by name."""

import math
import shutil
from copy import deepcopy
from dataclasses import replace
from types import SimpleNamespace

import pytest
import yaml
from safetensors.torch import load_file, save_file

from pipeline.config import recipe_file
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_yaml
from pipeline.weights import trained_model
from pipeline.weights.model_description import Trained
from tests.exchanges import flip
from tests.forged import forge, unhash
from tests.hostile import little_memory
from tests.pipeline.training.test_loop import recipe
from tests.pipeline.training.test_pretraining_phases import FIRST, SIZES
from tests.pipeline.training.test_pretraining_phases import recipe as pretraining_recipe

BAD = [..., -1, math.nan, "x"]  # ...: the key is removed


@pytest.fixture
def folder(tmp_path):
    chosen = recipe()
    model = recipe_file.build(chosen, chosen.sizes_for((6, 3, 3), 10, 8))
    place = tmp_path / "data/weights/tabletop/scorer_cbr/1"
    trained_model.save(place, Trained(chosen, 1, (6, 3, 3), 10, 8, 4, 0.5), model.state_dict())
    return place


def test_a_saved_model_is_loaded(folder, tmp_path, capsys):
    _, trained = trained_model.load(folder)
    assert (trained.shape, trained.recipe) == ((6, 3, 3), recipe())
    assert capsys.readouterr().err == ""
    imported = replace(trained, iteration=0, validation=math.nan)
    trained_model.save(tmp_path / "import", imported, load_file(folder / "weights.safetensors"))
    assert math.isnan(trained_model.load(tmp_path / "import")[1].validation)


def edits(tree, bad, at=()):
    """Yield (path of a key, a copy of the tree): each key removed, and with each wrong value."""
    for key, inner in tree.items():
        for value in bad:
            own = deepcopy(tree)
            own[key] = value
            if value is ...:
                del own[key]
            if own != tree:
                yield (*at, key), own
        if isinstance(inner, dict):
            yield from ((place, {**tree, key: own}) for place, own in edits(inner, bad, (*at, key)))


def refused(folder):
    try:
        with little_memory():
            trained_model.load(folder)
    except InputError as error:
        return str(error)
    return None


def test_every_edit_of_model_yaml_is_noticed(folder):
    """With forged hashes, only values that training may write, or that decide nothing, are accepted."""
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
    kept = {"seed", "iteration", "validation", "longest", "vocabulary", "shape", "hashes"}
    parts = tuple(f"recipe.{name}" for name in ("phases", "loss", "settings", "code", "features"))
    assert {each for each in harmless if not each.startswith(parts)} <= kept
    del tree["hashes"]
    (folder / "model.yaml").write_text(yaml.dump(tree, Dumper=yaml.CSafeDumper, sort_keys=False))
    assert "model.yaml has no hashes" in refused(folder)


def test_weights_of_another_stage_are_refused(folder):
    with pytest.raises(InputError, match=f"{folder}: .* phase train, .* stage pretrain"):
        trained_model.load(folder, "pretrain")


def other_weights(folder):
    found = {name: tensor + 1 for name, tensor in load_file(folder / "weights.safetensors").items()}
    save_file(found, folder / "weights.safetensors")


@pytest.mark.parametrize("change", [other_weights, flip("weights.safetensors")])
def test_other_weights_are_refused_and_weights_without_hashes_noted(folder, tmp_path, capsys, change):
    copy = shutil.copytree(folder, tmp_path / "copy")
    change(copy)
    with pytest.raises(InputError, match=r"weights\.safetensors .* hashes\.weights"):
        trained_model.load(copy)
    unhash(copy)
    trained_model.load(copy)
    assert f"note: {copy}/model.yaml has no hashes" in capsys.readouterr().err


def test_the_last_of_two_pre_training_phases_is_loaded(tmp_path):
    """IDC-PCL on CUB and then on pairs: its model of pairs, with the tensors that were saved."""
    of_pairs = pretraining_recipe({"switches": {"extra_data": "cub"}})
    both = {"images": FIRST | {"max_tokens": 8}} | of_pairs.phases
    chosen = replace(of_pairs, phases=both).pretraining
    sizes = chosen.sizes_for((6, 3, 3), 10, 8)
    images, pairs = (recipe_file.build(chosen.until(name), sizes) for name in ("images", "pretrain"))
    assert (images.single, pairs.single) == (True, False)
    trained_model.save(tmp_path / "w", Trained(chosen, 1, (6, 3, 3), 10, 8, 4, 0.5), pairs.state_dict())
    loaded, _ = trained_model.load(tmp_path / "w", "pretrain")
    assert not loaded.single
    assert all(tensor.equal(loaded.state_dict()[name]) for name, tensor in pairs.state_dict().items())


@pytest.mark.parametrize(
    ("part", "changed"),
    [("sizes", SIZES | {"width": 4}), ("phases", {"pretrain": FIRST | {"iterations": 9}})],
    ids=["sizes", "phases"],
)
def test_pre_trained_weights_of_other_settings_are_refused_unless_they_are_imported(tmp_path, part, changed):
    chosen = pretraining_recipe().pretraining
    sizes = chosen.sizes_for((6, 3, 3), 10, 8)
    weights = recipe_file.build(chosen, sizes).state_dict()
    trained = Trained(chosen, 1, (6, 3, 3), 10, 8, 4, 0.5)
    trained_model.save(tmp_path / "own", trained, weights)
    trained_model.save(tmp_path / "import", replace(trained, iteration=0, validation=math.nan), weights)
    other = replace(chosen, **{part: changed})
    assert trained_model.check(tmp_path / "own", chosen, 1, "again").run == "tabletop/idc_pcl/1"
    with pytest.raises(InputError, match=rf"model\.yaml: recipe\.{part} is not"):
        trained_model.check(tmp_path / "own", other, 1, "again")
    assert trained_model.check(tmp_path / "import", other, 1, "again").iteration == 0


@pytest.mark.parametrize("part", ["features", "store"])
def test_a_store_with_other_features_is_refused(part):
    hashes = {"features": "f", "store": "s", "images": "i"}
    trained = Trained(recipe(), 1, (6, 3, 3), 10, 8, 4, 0.5, hashes)
    store = SimpleNamespace(shape=(6, 3, 3), hashes=hashes, location=SimpleNamespace(name="grid.zarr"))
    trained.check_store(store)
    store.hashes = hashes | {part: "another"}
    with pytest.raises(InputError, match=r"grid\.zarr"):
        trained.check_store(store)
    store.hashes = hashes | {"images": "others", "store": "theirs"}
    trained.check_store(store)
