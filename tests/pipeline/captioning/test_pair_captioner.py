"""Captions of any images equal the captions of the stages extract and decode, for every model."""

import io
import shutil
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from pipeline.captioning import PairCaptioner, package
from pipeline.captioning.pair_captioner import Search
from pipeline.config.store_contents import PIXELS
from pipeline.datasets.schema import read_pairs
from pipeline.decoding.decode_split import attended_captions, searching
from pipeline.features.store import FeatureStore
from pipeline.io.errors import InputError
from pipeline.text import vocabularies
from pipeline.weights import trained_model
from tests.forged import forge
from tests.pipeline.captioning.conftest import weights_of
from tests.small_lab import ALL, STORES
from tests.stage_commands import PAIRS, STORE, VOCAB

pytestmark = pytest.mark.slow

WEIGHTS = "data/weights/tabletop/scorer_cbr/1"
ROOT = "data/raw/tabletop"


def by_stages(lab, weights, search):
    """Return pairs, and pair id -> caption from the feature store with the search of decode."""
    model, trained = trained_model.load(weights)
    pairs = read_pairs(lab / PAIRS)
    vocabulary = vocabularies.load(lab / VOCAB)
    store = FeatureStore(lab / STORES / f"{trained.recipe.input}.zarr", {})
    found = searching(search.beam, search.length_penalty)
    ids = {pair.pair_id for pair in pairs}
    return pairs, attended_captions(model, pairs, store, vocabulary, 256, found, ids)


@pytest.fixture(scope="module")
def shared(lab, tmp_path_factory):
    """Package of the laboratory's weights."""
    out = tmp_path_factory.mktemp("shared") / "scorer_cbr.zip"
    package.write(lab / WEIGHTS, lab, out, "a licence")
    return out


@pytest.mark.parametrize("model", ALL)
def test_captions_and_attention_equal_those_of_extract_and_decode(lab, here, model):
    weights = weights_of(lab, model)
    pairs, wanted = by_stages(lab, weights, Search())
    own, trained = trained_model.load(weights)
    captioner = replace(here, model=own, trained=trained)  # shares the backbone
    if trained.recipe.input == PIXELS:
        captioner = PairCaptioner.load(weights, lab)
    seen = {captioner(lab / ROOT / pairs[0].after, lab / ROOT / pairs[0].before)}
    for pair in pairs[::4]:
        found = captioner.attended(lab / ROOT / pair.before, lab / ROOT / pair.after)
        assert found.words == wanted[pair.pair_id].words
        np.testing.assert_allclose(found.maps, wanted[pair.pair_id].maps, atol=2e-3)
        assert (found.alignment is None) == (wanted[pair.pair_id].alignment is None)
        seen.add(found.caption)
    assert len(seen) > 1 or model != "scorer_cbr"  # the captions differ


def test_beam_search_is_that_of_decode(lab, here):
    search = Search(beam=3, length_penalty=0.7)
    pairs, wanted = by_stages(lab, lab / WEIGHTS, search)
    for pair in pairs[:3]:
        files = lab / ROOT / pair.before, lab / ROOT / pair.after
        assert here(*files, search) == wanted[pair.pair_id].caption
        assert here.ranked(*files, 3, search)[0].caption == wanted[pair.pair_id].caption


def test_a_package_needs_no_laboratory(lab, here, shared, tmp_path, monkeypatch):
    pairs = read_pairs(lab / PAIRS)[:4]
    monkeypatch.chdir(tmp_path)
    moved = shutil.copy(shared, tmp_path / "elsewhere.zip")
    shutil.unpack_archive(moved, tmp_path / "folder")
    (tmp_path / "folder/other.txt").write_text("ignored")
    for place in (moved, tmp_path / "folder"):
        there = PairCaptioner.load(place)
        for pair in pairs:
            files = lab / ROOT / pair.before, lab / ROOT / pair.after
            assert there(*files) == here(*files)
    assert "scorer_cbr on tabletop, seed 1" in (tmp_path / "folder/README.md").read_text()


def test_equal_packages_have_equal_bytes(lab, shared, tmp_path):
    package.write(lab / WEIGHTS, lab, tmp_path / "again.zip", "a licence")
    assert (tmp_path / "again.zip").read_bytes() == shared.read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["again.zip"]


@pytest.mark.parametrize("kind", ["path", "bytes", "image", "array"])
def test_an_image_may_be_a_path_bytes_an_image_or_an_array(lab, here, kind):
    pair = read_pairs(lab / PAIRS)[0]
    files = [lab / ROOT / pair.before, lab / ROOT / pair.after]
    ways = {
        "path": lambda path: str(path),
        "bytes": lambda path: path.read_bytes(),
        "image": lambda path: Image.open(io.BytesIO(path.read_bytes())),
        "array": lambda path: np.asarray(Image.open(io.BytesIO(path.read_bytes())).convert("RGB")),
    }
    assert here(*map(ways[kind], files)) == here(*files)


def test_missing_or_imported_features_are_refused(lab, tmp_path):
    copy = shutil.copytree(lab, tmp_path / "lab")
    shutil.rmtree(copy / STORE)
    with pytest.raises(InputError, match=r"grid\.zarr is not a feature store"):
        PairCaptioner.load(copy / WEIGHTS, copy)
    record = copy / WEIGHTS / "model.yaml"
    record.write_text(record.read_text().replace("weights: imagenet", "weights: imported from .npy files"))
    forge(copy / WEIGHTS)
    with pytest.raises(InputError, match=r"grid\.zarr was imported from \.npy files"):
        PairCaptioner.load(copy / WEIGHTS, copy)
