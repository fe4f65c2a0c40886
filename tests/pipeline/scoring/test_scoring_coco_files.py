"""Reading predictions and references in COCO's forms, and every way in which they can be wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.io.errors import InputError
from pipeline.scoring.coco_files import read_references, read_results

GOOD = {"image_id": 1, "caption": "a"}


@pytest.fixture
def file(tmp_path: Path):
    def write(value: Any) -> Path:
        path = tmp_path / "file.json"
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return path

    return write


def test_results_keep_their_order_and_empty_captions(file) -> None:
    results = [{"image_id": "b_n", "caption": "x"}, {"image_id": 7, "caption": "", "more": None}]
    assert read_results(file(results)) == {"b_n": "x", "7": ""}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"1": "a"}, "Input should be a valid list"),
        ([], "holds no prediction"),
        ([GOOD, {"caption": "a"}], "entry 1: the key image_id is missing"),
        ([{"image_id": True, "caption": "a"}], "entry 0: image_id.*not True"),
        ([GOOD, {"image_id": 2}], "entry 1: the key caption is missing"),
        ([{"image_id": 2, "caption": None}], "entry 0: caption: Input should be a valid string, not None"),
        (
            '[{"image_id": 2, "caption": "\\ud800"}]',
            "holds half a character",
        ),
        ([GOOD, {"image_id": "1", "caption": "b"}], r"(?s)predicts an id more than once.*1 \(2 times\)"),
        ('[{"image_id": 1, "caption": "a", "caption": "b"}]', "has the key 'caption' more than once"),
        ("[", "is not valid JSON"),
    ],
)
def test_wrong_results(file, value: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_results(file(value))


LINE = {"pair_id": "a", "before": "x.png", "after": "y.png", "caption": "the car left", "by": "m"}


def test_results_may_be_what_the_stage_caption_writes(file) -> None:
    lines = [LINE, LINE | {"pair_id": "b", "caption": ""}]
    assert read_results(file("".join(f"{json.dumps(line)}\n" for line in lines))) == {
        "a": "the car left",
        "b": "",
    }


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (LINE, "line 2: the pair_id 'a' is in an earlier line"),
        (
            {"pair_id": "b", "error": "b.png cannot be read"},
            r"(?s)pairs without a caption.*b: b.png cannot be read",
        ),
        ({"pair_id": "b", "caption": 3}, "line 2: caption"),
        ({"caption": "x"}, "line 2: the key pair_id is missing"),
        ("{", "line 2: Invalid JSON"),
    ],
)
def test_wrong_lines_of_captions(file, line: Any, said: str) -> None:
    written = [json.dumps(LINE), line if isinstance(line, str) else json.dumps(line)]
    with pytest.raises(InputError, match=said):
        read_results(file("\n".join(written) + "\n"))


def test_references_in_coco_form(file) -> None:
    tree = {
        "images": [{"id": 2}, {"id": "1"}, {"id": 3}],
        "annotations": [
            {"image_id": 1, "caption": "a", "id": 10},
            {"image_id": "2", "caption": "b"},
            {"image_id": 1, "caption": ""},
        ],
    }
    assert read_references(file(tree)) == {"2": ["b"], "1": ["a", ""], "3": []}


def test_references_as_a_mapping(file) -> None:
    assert read_references(file({"x": ["a", "b"], "y": []})) == {"x": ["a", "b"], "y": []}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([GOOD], "Input should be a valid dictionary"),
        ({}, "holds no references"),
        ({"annotations": [GOOD]}, "the key images is missing"),
        ({"images": [{"id": 1}, {"name": 2}], "annotations": []}, "the key images.1.id is missing"),
        ({"images": [{"id": 1}, {"id": "1"}], "annotations": []}, r"(?s)an image more than once.*1 \(2"),
        ({"images": [{"id": 2}], "annotations": [GOOD]}, "entry 1: image 1 is not listed"),
        (
            {"images": [{"id": 1}], "annotations": [{"image_id": 1}]},
            "the key annotations.0.caption is missing",
        ),
        ({"x": "a"}, "x: Input should be a valid list"),
        ('{"x": ["a"], "y": ["b"], "x": ["c"]}', "has the key 'x' more than once in one object; keep one"),
    ],
)
def test_wrong_references(file, value: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_references(file(value))
