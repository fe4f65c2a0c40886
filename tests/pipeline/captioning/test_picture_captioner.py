"""Captions of pictures from anywhere are those of extract and decode, by every model, shared or not."""

import io
import shutil
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from pipeline.captioning import PictureCaptioner, package
from pipeline.captioning.picture_captioner import Search
from pipeline.config.store_contents import PIXELS
from pipeline.datasets.schema import read_pairs
from pipeline.decoding.decode_split import attended_captions, searching
from pipeline.features.store import FeatureStore
from pipeline.io.errors import InputError
from pipeline.text import vocabularies
from pipeline.weights import trained_model
from tests.forged import forge
from tests.pipeline.captioning.conftest import weights_of
from tests.pipeline.captioning.spoiling import put
from tests.small_lab import ALL, STORES
from tests.stage_commands import PAIRS, STORE, VOCAB

pytestmark = pytest.mark.slow

WEIGHTS = "data/weights/tabletop/scorer_cbr/1"
ROOT = "data/raw/tabletop"


def by_stages(lab, weights, search):
    """Pair -> what extract's store and decode's search give."""
    model, trained = trained_model.load(weights)
    pairs = read_pairs(lab / PAIRS)
    vocabulary = vocabularies.load(lab / VOCAB)
    store = FeatureStore(lab / STORES / f"{trained.recipe.input}.zarr", {})
    found = searching(search.beam, search.length_penalty)
    ids = {pair.pair_id for pair in pairs}
    return pairs, attended_captions(model, pairs, store, vocabulary, 256, ids, found)


@pytest.fixture(scope="module")
def shared(lab, tmp_path_factory):
    """The package of the laboratory's weights."""
    out = tmp_path_factory.mktemp("shared") / "scorer_cbr.zip"
    package.write(lab / WEIGHTS, lab, out, "a licence")
    return out


@pytest.mark.parametrize("model", ALL)
def test_the_same_captions_as_extract_and_decode_to_the_last_token(lab, here, model):
    weights = weights_of(lab, model)
    pairs, wanted = by_stages(lab, weights, Search())
    own, trained = trained_model.load(weights)
    captioner = replace(here, model=own, trained=trained)  # whose backbone is made once
    if trained.recipe.input == PIXELS:
        captioner = PictureCaptioner.load(weights, lab)
    seen = {captioner(lab / ROOT / pairs[0].after, lab / ROOT / pairs[0].before)}
    for pair in pairs[::4]:
        found = captioner.attended(lab / ROOT / pair.before, lab / ROOT / pair.after)
        assert found.words == wanted[pair.pair_id].words
        np.testing.assert_allclose(found.maps, wanted[pair.pair_id].maps, atol=2e-3)
        assert (found.alignment is None) == (wanted[pair.pair_id].alignment is None)
        seen.add(found.caption)
    assert len(seen) > 1 or model != "scorer_cbr"  # or nothing was compared


def test_a_beam_is_decodes_beam(lab, here):
    search = Search(beam=3, length_penalty=0.7)
    pairs, wanted = by_stages(lab, lab / WEIGHTS, search)
    for pair in pairs[:3]:
        files = lab / ROOT / pair.before, lab / ROOT / pair.after
        assert here(*files, search) == wanted[pair.pair_id].caption
        assert here.ranked(*files, 3, search)[0].caption == wanted[pair.pair_id].caption


def test_a_package_needs_nothing_else(lab, here, shared, tmp_path, monkeypatch):
    """Not the laboratory, nor the dataset; from a .zip and from a folder."""
    pairs = read_pairs(lab / PAIRS)[:4]
    monkeypatch.chdir(tmp_path)
    moved = shutil.copy(shared, tmp_path / "elsewhere.zip")
    shutil.unpack_archive(moved, tmp_path / "folder")
    (tmp_path / "folder/other.txt").write_text("no file of ours is looked for by listing")
    for place in (moved, tmp_path / "folder"):
        there = PictureCaptioner.load(place)
        for pair in pairs:
            files = lab / ROOT / pair.before, lab / ROOT / pair.after
            assert there(*files) == here(*files)
    assert "scorer_cbr on tabletop, seed 1" in (tmp_path / "folder/README.md").read_text()


def test_the_same_package_again_and_another_of_other_weights(lab, shared, tmp_path):
    package.write(lab / WEIGHTS, lab, tmp_path / "again.zip", "a licence")
    package.write(lab / WEIGHTS, lab, tmp_path / "other.zip", "another licence")
    assert (tmp_path / "again.zip").read_bytes() == shared.read_bytes()
    assert (tmp_path / "other.zip").read_bytes() != shared.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.zip", "other.zip"]
    shutil.unpack_archive(shared, tmp_path / "folder")
    with pytest.raises(InputError, match="is a package already"):
        package.write(tmp_path / "folder", lab, tmp_path / "x.zip", "")


@pytest.mark.parametrize("kind", ["path", "bytes", "image", "array"])
def test_a_picture_may_be_given_in_several_ways(lab, here, kind):
    pair = read_pairs(lab / PAIRS)[0]
    files = [lab / ROOT / pair.before, lab / ROOT / pair.after]
    ways = {
        "path": lambda path: str(path),
        "bytes": lambda path: path.read_bytes(),
        "image": lambda path: Image.open(io.BytesIO(path.read_bytes())),
        "array": lambda path: np.asarray(Image.open(io.BytesIO(path.read_bytes())).convert("RGB")),
    }
    assert here(*map(ways[kind], files)) == here(*files)


def test_features_that_cannot_be_had_are_refused_by_the_files_name(lab, tmp_path):
    copy = shutil.copytree(lab, tmp_path / "lab")
    shutil.rmtree(copy / STORE)
    with pytest.raises(InputError, match=r"grid\.zarr is not a feature store"):
        PictureCaptioner.load(copy / WEIGHTS, copy)
    put(f"{WEIGHTS}/model.yaml", "weights: imagenet", "weights: imported from .npy files")(copy)
    forge(copy / WEIGHTS)
    with pytest.raises(InputError, match=r"grid\.zarr was imported from \.npy files"):
        PictureCaptioner.load(copy / WEIGHTS, copy)
