"""The files beside shared weights: whatever stands in them is refused by key, or harmless."""

import json
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest

from commands import demo
from pipeline.captioning import PictureCaptioner, package, sources
from pipeline.config import params
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_yaml
from pipeline.io.records import plain
from pipeline.weights.model_description import check_features, described
from tests.pipeline.captioning.conftest import weights_of

BAD = [None, -1, 0, 1e9, 3.5, True, "x", "", [], [1], {}, {"a": 1}]
MODELS = ["scorer_cbr", "clip4idc", "idc_pcl"]
# what any text or number may be: nothing that captions need hangs on it
HARMLESS = {"seed", "iteration", "validation", "recipe.dataset", "recipe.model"}
HARMLESS |= {"recipe.features.backbone", "recipe.features.weights"}  # compared by the weights' hash
HARMLESS |= {"hashes"}  # a package of before there were any is noted as not verified
SECTIONS = ("recipe.loss", "recipe.train", "recipe.adapt", "recipe.settings", "recipe.code", "recipe.sizes.")


@pytest.fixture(scope="module", params=MODELS)
def packed(request, lab, tmp_path_factory):
    out = tmp_path_factory.mktemp("packed") / request.param
    package.write(weights_of(lab, request.param), lab, out, "")
    return out


def places(tree, at=()):
    for key in tree if isinstance(tree, dict) else ():
        yield (*at, key)
        yield from places(tree[key], (*at, key))


def changed(tree, place, value):
    tree = deepcopy(tree)
    inner = tree
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return tree


def accepted(check, tree):
    """Keys, dotted, of which one of BAD passes; anything but an InputError comes through."""
    check(tree)
    found = set()
    for place in places(tree):
        for value in BAD:
            own = changed(tree, place, value)
            with suppress(InputError):
                if own != tree:
                    check(own)
                    found.add(".".join(place))
    return found


def test_what_stands_in_model_yaml(packed):
    tree = read_yaml(packed / "model.yaml", "")
    path = Path("model.yaml")

    def check(tree):
        check_features(path, described(path, tree, "bring it").recipe.features, "bring it")

    found = accepted(check, tree)
    assert {key for key in found if not key.startswith(SECTIONS)} <= HARMLESS | {"vocabulary", "longest"}
    assert found & HARMLESS  # or everything was refused


def test_what_stands_in_features_yaml(packed):
    tree = read_yaml(packed / "features.yaml", "")
    kind = sources.Made
    found = accepted(lambda tree: plain(Path("features.yaml"), kind, tree, "bring it"), tree)
    assert found <= {"weights_id", "carried"}


def test_what_stands_in_vocabulary_json(packed):
    tree = json.loads((packed / "vocabulary.json").read_text())
    found = accepted(lambda tree: sources.check_vocabulary(Path("v.json"), tree, "bring it"), tree)
    # hashes are compared by vocabularies.load
    assert {key for key in found if not key.startswith(("counts", "hashes"))} <= {"longest"}


def test_trained_weights_alone_say_which_scenes_to_draw(lab, here):
    """By params.yaml of their laboratory; not those of a dataset that is not rendered."""
    assert demo.settings({"it": here}, lab) == params.load(lab / "params.yaml").tabletop.of("tabletop")
    recipe = replace(here.trained.recipe, dataset="mine")
    other = replace(here, trained=replace(here.trained, recipe=recipe))
    with pytest.raises(InputError, match="demo/clip4idc to --weights"):
        demo.settings({"it": other}, lab)


def test_scores_that_are_none(lab, tmp_path):
    out = tmp_path / "package"
    package.write(lab / "data/weights/tabletop/scorer_cbr/1", lab, out, "")
    captioner = PictureCaptioner.load(out)
    assert demo.settings({"it": captioner}, lab).seed
    captioner.scores["rendered"]["seed"] = "large"
    with pytest.raises(InputError, match=r"^scores\.json: seed: "):
        demo.settings({"it": captioner}, lab)
    captioner.scores["rendered"] |= {"seed": 1, "width": 4096, "height": 4096}
    with pytest.raises(InputError, match=r"^scores\.json: rendered: images of 4096 x 4096 pixels"):
        demo.settings({"it": captioner}, lab)
    (out / "scores.json").write_text("[]")
    with pytest.raises(InputError, match=r"package/scores\.json: Input should be an object"):
        PictureCaptioner.load(out)
