"""Every reader reads damaged annotation files correctly, or refuses them with an error that names one."""

import json
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.datasets import readers
from pipeline.datasets.annotations import normalised
from pipeline.datasets.schema import SPLITS, read_pairs, write_pairs
from pipeline.io.errors import InputError
from tests.synthetic_real import MAKERS, make_clevr_dc_dirl

# texts -> what replaces them in the file, because json.dumps cannot write it
RAW = {
    "@float beyond all": "1e400",
    "@beyond 64 bits": "9" * 40,
    "@too long an integer": "9" * 5000,
    "@deep": "[" * 300 + "]" * 300,
    "@not a number": "NaN",
}
ODD = ["\ud800", "../x.png", "/etc/x.png", "a\0b", "", " ", "\u2028", [], {}, [[]], [None]]
JUNK = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([*RAW, *ODD])
    | st.lists(st.integers() | st.text(max_size=3), max_size=3)
    | st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)
)
FOLDERS = {**MAKERS, "clevr_dc ": make_clevr_dc_dirl}  # reader (with a space: the other layout) -> maker
SCENES = {
    "number": 0,
    "before_box": [1, 2, 3, 4],
    "after_box": None,
    "semantic_iou": 0.5,
    "distractor_iou": 0.25,
    "changed": 1,
    "before": [{"number": 1, "size": "large", "color": "red", "material": "metal", "shape": "cube"}],
    "after": [],
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> dict[str, dict[str, bytes]]:
    """The annotation files of a sound dataset for each reader."""
    found = {}
    for name, make in FOLDERS.items():
        root = make(tmp_path_factory.mktemp(name.strip()) / "raw")
        if name == "clevr_change":
            (root / "scenes.json").write_text(json.dumps({"scenes": [SCENES]}))
        if name == "birds_to_words":
            address = "https://static.inaturalist.org/photos/{}/large.jpg?1"
            birds = (*range(101, 120), *range(200, 220))
            (root / "images.json").write_text(
                json.dumps({address.format(bird): f"images/{bird}.jpg" for bird in birds})
            )
        paths = readers.annotation_files(name.strip(), root)
        found[name] = {str(path.relative_to(root)): path.read_bytes() for path in paths}
    return found


def places(value: Any) -> list[tuple[Any, ...]]:
    """Return every place in a JSON value, as the keys that lead there."""
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(), *((key, *rest) for key, inner in below for rest in places(inner))]


def damage_json(draw: Any, text: str) -> str:
    """Delete, double or replace one place in a JSON text."""
    tree = {"": json.loads(text)}
    *path, last = draw(st.sampled_from(places(tree)[1:]))
    branch = tree
    for key in path:
        branch = branch[key]
    how = draw(st.sampled_from(["replace", "replace", "delete", "double"]))
    if how == "replace" or last == "":
        branch[last] = deepcopy(draw(JUNK))  # the strategy's own lists must stay as they are
    elif how == "delete":
        del branch[last]
    elif isinstance(branch, list):
        branch.append(deepcopy(branch[last]))
    else:
        branch[draw(st.text(max_size=4))] = deepcopy(branch[last])
    text = json.dumps(tree[""])
    for name, raw in RAW.items():
        text = text.replace(json.dumps(name), raw)
    return text


def damage_bytes(draw: Any, data: bytes) -> bytes:
    """Cut a piece out, and put something else there."""
    start = draw(st.integers(0, len(data)))
    end = draw(st.integers(start, min(len(data), start + 30)) | st.just(len(data)))
    signs = [b"", b"\xff", b"\x00", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\t", b"\n", b"\r", b'"', b"{", b"]"]
    return data[:start] + draw(st.sampled_from(signs) | st.binary(max_size=4)) + data[end:]


def check(reader: str, root: Path, files: dict[str, bytes]) -> None:
    """Write the files and read them. The pairs are sound, and can be written."""
    for path, content in files.items():
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_bytes(content)
    pairs = readers.read(reader, root)
    assert len({pair.pair_id for pair in pairs}) == len(pairs)
    assert {pair.split for pair in pairs} == set(SPLITS)
    for pair in pairs:
        assert pair.captions
        assert all(isinstance(text, str) and text.strip() for text in pair.captions)
        assert all(normalised(name) for name in (pair.before, pair.after))
    write_pairs(root / "pairs.jsonl", pairs)
    assert read_pairs(root / "pairs.jsonl") == pairs


@pytest.mark.parametrize("name", FOLDERS)
@settings(max_examples=60)
@given(data=st.data())
def test_damaged_files_are_read_or_refused_by_name(sound, name, data):
    files = dict(sound[name])
    file = data.draw(st.sampled_from(sorted(files)))
    if file.endswith(".json") and data.draw(st.booleans()):
        files[file] = damage_json(data.draw, files[file].decode()).encode()
    else:
        files[file] = damage_bytes(data.draw, files[file])
    with TemporaryDirectory() as folder:
        said = ""
        try:
            check(name.strip(), Path(folder), files)
        except InputError as error:
            said = str(error)
        assert not said or any(path in said for path in files)


@pytest.mark.parametrize("name", FOLDERS)
def test_sound_files_are_read(sound, name, tmp_path):
    check(name.strip(), tmp_path, sound[name])
