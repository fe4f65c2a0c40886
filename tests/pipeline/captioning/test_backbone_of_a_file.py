"""Packages of weights whose backbone comes from a file: with the backbone's weights and without."""

import shutil

import pytest

from pipeline.captioning import PictureCaptioner, package
from pipeline.datasets.schema import read_pairs
from pipeline.io.errors import InputError
from tests.backbones import TINY, write_tiny
from tests.running import set_params, succeed
from tests.small_lab import STAGES, add_weights
from tests.stage_commands import PAIRS

pytestmark = pytest.mark.slow

FILE = "data/backbone.safetensors"
ROOT = "data/raw/tabletop"


@pytest.fixture(scope="module")
def trained(lab, tmp_path_factory):
    """Laboratory whose features are from a backbone of a file, and a folder of weights."""
    folder = tmp_path_factory.mktemp("file") / "lab"
    shutil.copytree(lab, folder, ignore=shutil.ignore_patterns("weights"))
    write_tiny(folder / FILE)
    set_params(folder, features__backbone=TINY, dataset__tabletop__features__weights=FILE)
    succeed(folder, STAGES[1])
    return folder, add_weights(folder, "scorer_cbr", shape=(176, 4, 4))


def captions(captioner, lab):
    pairs = read_pairs(lab / PAIRS)[:4]
    return [captioner(lab / ROOT / pair.before, lab / ROOT / pair.after) for pair in pairs]


def test_a_package_with_the_backbone_needs_nothing_else(trained, tmp_path, monkeypatch):
    lab, weights = trained
    monkeypatch.chdir(lab)
    wanted = captions(PictureCaptioner.load(weights, lab), lab)
    package.write(weights, lab, tmp_path / "whole.zip", "a licence", with_backbone=True)
    package.write(weights, lab, tmp_path / "small.zip", "a licence")
    assert captions(PictureCaptioner.load(tmp_path / "small.zip", tmp_path), lab) == wanted
    monkeypatch.chdir(tmp_path)  # without the backbone's file
    assert captions(PictureCaptioner.load(tmp_path / "whole.zip", tmp_path), lab) == wanted
    with pytest.raises(InputError, match=r"data/backbone\.safetensors is missing"):
        PictureCaptioner.load(tmp_path / "small.zip", tmp_path)
    (tmp_path / FILE).parent.mkdir()
    write_tiny(tmp_path / FILE, name="tf_efficientnet_lite0")
    with pytest.raises(InputError, match=r"backbone\.safetensors holds no weights"):
        PictureCaptioner.load(tmp_path / "small.zip", tmp_path)
