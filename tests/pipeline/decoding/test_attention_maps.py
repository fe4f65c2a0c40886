"""attention.npz: written and read, with the same bytes each time; damaged files end in one line."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.decoding.attention_maps import Attended, read, read_exchanged, write
from pipeline.decoding.attention_maps import attended as join
from tests.hostile import refused

GRID = (2, 3)
NAMES = ("before", "difference", "after")
# numpy's strings of fixed width end at their last character that is not NUL; no word holds one
TEXT = st.text(st.characters(exclude_characters="\0"), min_size=1, max_size=6)


def maps(words, seed=0, images=1):
    drawn = np.random.default_rng(seed).random((words, images, *GRID))
    return (drawn / drawn.sum((2, 3), keepdims=True)).astype(np.float16)


def weights(words, names=3, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(names), words).astype(np.float16)


def attended(words, seed=0, aligned=False, images=1, weighed=()):
    alignment = np.full((6, 6), 1 / 6, np.float16) * (1 + seed) if aligned else None
    own = weights(len(words), len(weighed), seed) if weighed else None
    return Attended(tuple(words), maps(len(words), seed, images), alignment, None, tuple(weighed), own)


def assert_same(one, other):
    assert list(one) == list(other)
    for a, b in zip(one.values(), other.values(), strict=True):
        assert (a.words, a.weighed, a.grid) == (b.words, b.weighed, GRID)
        for name in ("maps", "alignment", "weights"):
            mine, theirs = getattr(a, name), getattr(b, name)
            assert (mine is None) == (theirs is None)
            assert mine is None or (mine.dtype == theirs.dtype == np.float16 and np.array_equal(mine, theirs))


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("attention") / "attention.npz"


@given(
    st.dictionaries(TEXT, st.tuples(st.lists(TEXT, max_size=4), st.booleans()), min_size=1, max_size=5),
    st.integers(0, 2),
    st.lists(TEXT, max_size=4, unique=True),
)
def test_what_is_written_is_read(file, captions, images, weighed):
    given = {
        pair: attended(words, seed, aligned, images, weighed)
        for seed, (pair, (words, aligned)) in enumerate(captions.items())
    }
    write(file, given)
    assert_same(read(file), given)


def test_captions_of_exchanged_images_belong_to_their_pairs_in_any_order(tmp_path):
    exchanged = {"2": "it left", "1": "it came"}
    write(tmp_path / "a.npz", {pair: attended(["the", "ball"]) for pair in "12"}, exchanged=exchanged)
    assert read_exchanged(tmp_path / "a.npz") == exchanged


def test_the_arrays_are_those_that_the_format_names(tmp_path):
    given = {"1.png": attended(["the", "ball"]), "2": attended([]), "3": attended(["no"], 1, aligned=True)}
    write(tmp_path / "a.npz", given)
    with np.load(tmp_path / "a.npz", allow_pickle=False) as arrays:
        assert set(arrays) == {"pair_id", "start", "word", "map", "aligned_pair", "alignment"}
        assert arrays["start"].tolist() == [0, 2, 2, 3]
        assert arrays["word"].tolist() == ["the", "ball", "no"]
        assert arrays["map"].shape == (3, *GRID)
        assert arrays["aligned_pair"].tolist() == ["3"]
    write(tmp_path / "b.npz", {"1.png": attended(["the", "ball"], images=2, weighed=NAMES[::2])})
    with np.load(tmp_path / "b.npz", allow_pickle=False) as arrays:
        assert set(arrays) == {"pair_id", "start", "word", "map", "weight_name", "weight"}
        assert arrays["weight_name"].tolist() == ["before", "after"]
        assert arrays["map"].shape == (2, 2, *GRID)


def test_a_words_weights_are_the_mean_of_its_tokens():
    tokens, drawn = [("a", 1), ("xylophonist", 3), ("moved", 2)], weights(7)
    found = join(tokens, maps(7), NAMES, drawn)
    wanted = [drawn[:1], drawn[1:4], drawn[4:6]]
    assert found.words == ("a", "xylophonist", "moved")
    np.testing.assert_allclose(found.weights, [each.astype(float).mean(0) for each in wanted], atol=1e-3)
    assert found.weights.dtype == np.float16
    assert join([], maps(1), NAMES, weights(1)).weights.shape == (0, 3)
    assert join(tokens, maps(7)).weights is None


def test_what_is_shown_on_each_image():
    assert attended(["a"], images=0).on(0) is attended(["a"], images=0).on(1) is None
    one, two = attended(["a", "b"]), attended(["a", "b"], images=2)
    for side in (0, 1):
        assert np.array_equal(one.on(side), one.maps[:, 0])
        assert np.array_equal(two.on(side), two.maps[:, side])


def test_the_same_bytes_at_another_time(tmp_path, monkeypatch):
    given = {"1": attended(["the", "ball"], aligned=True)}
    write(tmp_path / "a.npz", given)
    times = itertools.count(4e9)
    monkeypatch.setattr("time.time", lambda: next(times))
    write(tmp_path / "b.npz", given)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npz", "b.npz"]


GOOD = {
    "pair_id": np.array(["1", "2"]),
    "start": np.array([0, 1, 3]),
    "word": np.array(["a", "b", "c"]),
    "map": maps(3)[:, 0],
    "aligned_pair": np.array(["2"]),
    "alignment": np.zeros((1, 6, 6), np.float16),
    "block_pair": np.array(["1"]),
    "block_name": np.array(["block 9", "block 12"]),
    "block": maps(4).reshape(1, 2, 2, *GRID),
    "weight_name": np.array(NAMES),
    "weight": weights(3),
}


def test_blocks_are_read_and_written(tmp_path):
    np.savez(tmp_path / "a.npz", **GOOD)
    found = read(tmp_path / "a.npz")
    assert found["2"].blocks is None
    write(tmp_path / "b.npz", found)
    for file in ("a.npz", "b.npz"):
        blocks = read(tmp_path / file)["1"].blocks
        assert list(blocks) == ["block 9", "block 12"]
        assert np.array_equal([*blocks.values()], GOOD["block"][0])


@pytest.mark.parametrize(
    "changes",
    [
        {"pair_id": np.array(["1", "1"])},
        {"start": np.array([0, 4, 3])},
        {"map": maps(2)[:, 0]},
        {"map": maps(3, images=3)},
        {"map": None},
        {"map": maps(3)[:, 0] * np.float16(2)},
        {"map": maps(3)[:, 0] * np.float16(np.nan)},
        {"map": maps(3)[:, 0] + np.array([[[9, -9, 0], [0, 0, 0]]], np.float16)},
        {"alignment": np.zeros((1, 6, 5), np.float16)},
        {"word": np.array(["a", "b", None], dtype=object)},
        {"block": np.zeros((1, 2, 3, *GRID), np.float16)},
        {"weight_name": np.array(["a", "b", "a"])},
        {"weight": weights(3) * np.float16(1.1)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_arrays_that_do_not_fit(tmp_path, changes):
    arrays = {name: array for name, array in (GOOD | changes).items() if array is not None}
    np.savez(tmp_path / "a.npz", **arrays)
    said = refused(lambda: read(tmp_path / "a.npz"))
    assert said.startswith(f"{tmp_path / 'a.npz'} does not hold attention maps (")
    assert next(iter(changes)) in said or "allow_pickle=False" in said
    assert said.endswith("; run `dvc repro decode` to make it again")


@pytest.mark.parametrize("damage", ["cut", "flipped", "text", "pickle", "missing"])
def test_damaged_files(tmp_path, damage):
    path = tmp_path / "a.npz"
    write(path, {"1": attended(["the", "ball"])})
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[whole.index(maps(2).tobytes())] ^= 1
    contents = {"cut": whole[:-99], "flipped": flipped, "text": b"{}", "pickle": pickle.dumps([1])}
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(contents[damage])
    said = refused(lambda: read(path))
    assert str(path) in said
    assert "run `dvc repro decode`" in said
