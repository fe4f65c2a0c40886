"""Captions of pictures from anywhere are those of extract and decode, by every model, shared or not."""

import io
import shutil
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import load_file, save_file

from pipeline import vocabularies
from pipeline.captioning import PictureCaptioner, package
from pipeline.captioning.picture_captioner import Search
from pipeline.datasets.schema import read_pairs
from pipeline.decoding.decode_split import attended_captions, searching
from pipeline.errors import InputError
from pipeline.features.store import FeatureStore
from pipeline.features.store_contents import PIXELS
from pipeline.recipes import trained_model
from tests.pipeline.captioning.conftest import weights_of
from tests.small_lab import ALL, PAIRS, STORE, STORES, VOCAB

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


def test_features_are_the_stores(lab, here):
    captioner, store = here, FeatureStore(lab / STORE, {})
    names = list(store.row)[:3]
    images = [captioner.features.squashed(lab / ROOT / name) for name in names]
    found = captioner.features.grids(images, names).numpy().astype(np.float32)
    np.testing.assert_allclose(found, store.read(names).astype(np.float32), rtol=2e-3, atol=2e-3)


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


def picture(folder, name, mode="RGB", size=(40, 30), **options):
    values = np.random.default_rng(0).integers(0, 255, (size[1], size[0], 4), dtype=np.uint8)
    image = Image.fromarray(values) if mode == "RGBA" else Image.fromarray(values[..., :3]).convert(mode)
    image.save(folder / name, **options)
    return folder / name


def test_odd_pictures(here, tmp_path):
    """Other sizes, one pixel, grey, transparent, 16 bits, CMYK, an animation, twice the same, too large."""
    captioner = here
    plain = picture(tmp_path, "plain.png")
    Image.fromarray(np.arange(1200, dtype=np.uint16).reshape(30, 40) * 50).save(tmp_path / "deep.png")
    frames = [Image.new("P", (20, 20), color) for color in (1, 2)]
    frames[0].save(tmp_path / "moves.gif", save_all=True, append_images=frames[1:])
    odd = [
        picture(tmp_path, "small.png", size=(1, 1)),
        picture(tmp_path, "wide.png", size=(300, 7)),
        picture(tmp_path, "grey.png", "L"),
        picture(tmp_path, "clear.png", "RGBA"),
        picture(tmp_path, "print.jpg", "CMYK"),
        tmp_path / "deep.png",
        tmp_path / "moves.gif",
        plain,
    ]
    for path in odd:
        assert captioner(plain, path), path
    Image.new("1", (12_000, 9_000)).save(tmp_path / "huge.png")
    with pytest.raises(InputError, match=r"huge\.png has more than 89,478,485 pixels; scale it down"):
        captioner(plain, tmp_path / "huge.png")
    with pytest.raises(InputError, match="before does not open"):
        captioner(plain.read_bytes()[:200], plain)
    with pytest.raises(InputError, match="after is float64 of shape"):
        captioner(plain, np.zeros((4, 4, 3)))


def damaged(shared, tmp_path, change):
    folder = tmp_path / "package"
    shutil.unpack_archive(shared, folder)
    change(folder)
    with pytest.raises(InputError) as error:
        PictureCaptioner.load(folder)
    return str(error.value)


def edit(folder, change):
    tensors = load_file(folder / "statistics.safetensors")
    change(tensors)
    save_file(tensors, folder / "statistics.safetensors")


def rewrite(file, old, new):
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f: (f / "vocabulary.json").unlink(), "vocabulary.json is missing"),
        (lambda f: (f / "weights.safetensors").write_bytes(b"no"), "weights.safetensors does not load"),
        (lambda f: (f / "statistics.safetensors").unlink(), "statistics.safetensors does not load"),
        (lambda f: edit(f, lambda t: t.pop("mean")), "statistics.safetensors lacks the mean of 272 channels"),
        (
            lambda f: edit(f, lambda t: t.update(deviation=t["deviation"][:7].clone())),
            "lacks the deviation of 272 channels; bring the package again",
        ),
        (
            lambda f: edit(f, lambda t: t["mean"].fill_(float("nan"))),
            "statistics.safetensors: mean has a number that is not finite",
        ),
        (lambda f: edit(f, lambda t: t["deviation"].zero_()), "a deviation is not above 0"),
        (
            lambda f: (f / "features.yaml").write_text("seed: 1\nsed: 2"),
            "features.yaml: the key weights_id is missing",
        ),
        (
            lambda f: rewrite(f / "features.yaml", "weights_id: sha256:3", "weights_id: sha256:4"),
            "imagenet holds sha256:3",
        ),
        (
            lambda f: rewrite(
                f / "model.yaml", "backbone: tf_efficientnet_lite0", "backbone: tf_efficientlite0"
            ),
            "timm has no model 'tf_efficientlite0'",
        ),
    ],
)
def test_a_damaged_package_is_refused_by_name(shared, tmp_path, change, said):
    assert said in damaged(shared, tmp_path, change)


def test_what_is_no_package(shared, tmp_path):
    (tmp_path / "half.zip").write_bytes(shared.read_bytes()[:5000])
    (tmp_path / "empty.zip").write_bytes(b"PK\5\6" + bytes(18))
    for name, said in (("half", "does not open"), ("empty", "it lacks model.yaml"), ("none", "is missing")):
        with pytest.raises(InputError, match=said):
            PictureCaptioner.load(tmp_path / f"{name}.zip")


def test_features_that_cannot_be_had_are_refused_by_the_files_name(lab, tmp_path):
    copy = shutil.copytree(lab, tmp_path / "lab")
    shutil.rmtree(copy / STORE)
    with pytest.raises(InputError, match=r"grid\.zarr is not a feature store"):
        PictureCaptioner.load(copy / WEIGHTS, copy)
    rewrite(copy / WEIGHTS / "model.yaml", "weights: imagenet", "weights: imported from .npy files")
    with pytest.raises(InputError, match=r"grid\.zarr was imported from \.npy files"):
        PictureCaptioner.load(copy / WEIGHTS, copy)
