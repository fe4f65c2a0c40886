"""Captions, references and scores in the files of any program, and every way in which they can be wrong."""

import json
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.datasets.schema import Pair
from pipeline.io.errors import InputError
from pipeline.scoring.caption_files import read_predictions, read_results, read_scores
from pipeline.scoring.reference_files import read_references
from tests.hostile import refused

PAIRS = [Pair(f"{n}.png", str(n), "test", "a", "b", ("x",)) for n in (0, 1)]
TEXTS = {"0.png": "the cube, red, moved", "1.png": "no change"}


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def rows(key, text):
    return [{key: name, text: said, "more": 1} for name, said in TEXTS.items()]


LOG = [
    {"doc_id": n, "doc": {"id": name, "note": "x"}, "target": "t", "resps": [["y"]], "filtered_resps": [said]}
    for n, (name, said) in enumerate(TEXTS.items())
]
NAMED = {
    "COCO results": json.dumps(rows("image_id", "caption")),
    "commands.caption": lines(rows("pair_id", "caption")),
    "JSON lines, id and prediction": lines(rows("id", "prediction")),
    "a JSON list over several lines": json.dumps(rows("question_id", "response"), indent=1),
    "id -> text": json.dumps(TEXTS, indent=1),
    "CSV": 'id,prediction\n0.png,"the cube, red, moved"\n1.png,no change\n',
    "lmms-eval": lines(LOG),
    "lmms-eval, one JSON": json.dumps({"args": {}, "logs": LOG}),
}
BY_PLACE = {
    "lmms-eval": lines({"doc_id": n, "resps": [[said]]} for n, said in enumerate(TEXTS.values())),
    "VLMEvalKit, tsv": "index\tquestion\tprediction\n0\tWhat?\tthe cube, red, moved\n1\tWhat?\tno change\n",
    "VLMEvalKit, json": json.dumps(
        [{"index": n, "image_id": name, "prediction": said} for n, (name, said) in enumerate(TEXTS.items())]
    ),
}


@pytest.fixture
def file(tmp_path):
    def write(content):
        path = tmp_path / "answers"
        content = content if isinstance(content, (str, bytes)) else json.dumps(content)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.mark.parametrize("text", [*NAMED.values(), *BY_PLACE.values()], ids=[*NAMED, *BY_PLACE])
def test_every_form_is_read(file, text):
    assert read_predictions(file(text), PAIRS) == TEXTS


@pytest.mark.parametrize("text", NAMED.values(), ids=NAMED)
def test_named_captions_are_read_without_pairs(file, text):
    assert read_results(file(text)) == TEXTS


def test_results_keep_their_order_and_empty_captions(file):
    results = [{"image_id": "b_n", "caption": "x"}, {"image_id": 7, "caption": "", "more": None}]
    assert read_results(file(results)) == {"b_n": "x", "7": ""}


WRONG = {
    "nothing": ("[]", "has no entry"),
    "an id twice": (lines(rows("id", "caption") * 2), "entry 3: 0.png has an entry before"),
    "an id as number and text": ('[{"id": 1, "caption": ""}, {"id": "1", "caption": ""}]', "entry 2: 1 has"),
    "no id": (lines([{"caption": "x"}] * 2), "entry 1 has no id"),
    "no text": (lines([{"id": "0.png", "note": "x"}]), "entry 1 has no text"),
    "a text that is none": (lines([{"id": "0.png", "caption": None}]), "entry 1 has no text"),
    "a pair that has an error": (lines([{"pair_id": "b", "error": "b.png cannot"}]), "(b.png cannot)"),
    "an empty answer": (lines([{"id": "0.png", "resps": [[]]}]), "entry 1: resps is []"),
    "no object": ("[1, 2]", "no objects"),
    "half a file": ('{"id": "0.png", "caption"', "is not valid JSON"),
    "half a character": ('[{"id": 2, "caption": "\\ud800"}]', "holds half a character"),
    "a key twice": ('[{"id": 1, "caption": "a", "caption": "b"}]', "has the key 'caption' more than once"),
    "a row too long": ("id,caption\n0.png,a,b\n", "entry 1 has another number of fields"),
    "an open quotation mark": ('id,caption\n0.png,"a\n', "is not readable as a table"),
    "a number as caption": ('[{"id": 1, "caption": 5}]', "caption is 5"),
    "a workbook": (b"PK\3\4xxxx", "workbook"),
}


@pytest.mark.parametrize(("content", "said"), WRONG.values(), ids=WRONG)
def test_a_wrong_file_is_refused_by_name(file, content, said):
    path = file(content)
    found = refused(lambda: read_results(path))
    assert said in found
    assert str(path) in found


def test_other_pairs_are_named(file):
    path = file(lines([{"id": "9.png", "caption": "x"}]))
    found = refused(lambda: read_predictions(path, PAIRS))
    assert f"no id of {path} is in the pairs: '9.png', '0.png'" in found
    path = file(lines([{"doc_id": 9, "caption": "x"}]))
    assert "'9' is no pair of this split" in refused(lambda: read_predictions(path, PAIRS))
    assert "has no id" in refused(lambda: read_results(path))
    with pytest.raises(InputError, match=r"answers lacks pairs(?s:.)*1\.png"):
        read_predictions(file(lines(rows("id", "caption")[:1])), PAIRS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (lines([{"id": "0.png", "score": 7.5}, {"id": "1.png", "score": 3}]), [7.5, 3]),
        (lines([{"id": "0.png", "verdict": True}, {"id": "1.png", "verdict": "wrong"}]), [1, 0]),
        ("id,rating\n0.png,10\n1.png,0.5\n", [10, 0.5]),
        (json.dumps({"0.png": 1, "1.png": 2}), [1, 2]),
    ],
)
def test_scores_are_read(file, text, expected):
    assert [*read_scores(file(text), PAIRS).values()] == expected


@pytest.mark.parametrize("score", ["good", None, "nan", ""])
def test_a_score_that_is_no_number_is_refused(file, score):
    path = file(lines([{"id": "0.png", "score": score}]))
    assert f"{path}, entry 1" in refused(lambda: read_scores(path, PAIRS))


def test_references_in_coco_form_or_as_a_mapping(file):
    annotations = [(1, "a"), ("2", "b"), (1, "")]
    tree = {
        "images": [{"id": 2}, {"id": "1"}, {"id": 3}],
        "annotations": [{"image_id": name, "caption": text, "id": 10} for name, text in annotations],
    }
    found = {"2": ["b"], "1": ["a", ""], "3": []}
    assert read_references(file(tree)) == found
    assert read_references(file(found)) == found


def test_an_image_that_is_listed_once_per_annotator_is_one_image(file):
    images = [{"id": "a", "file_name": "a.png"}, {"id": "a", "file_name": "a.png"}, {"id": "b"}, {"id": "a"}]
    annotations = [
        {"id": 0, "image_id": "a", "caption": "the car is gone"},
        {"id": 1, "image_id": "b", "caption": "nothing changed"},
        {"id": 2, "image_id": "a", "caption": "the car is gone"},
    ]
    tree = {"images": images[:3], "annotations": annotations}
    assert read_references(file(tree)) == {"a": ["the car is gone"] * 2, "b": ["nothing changed"]}


GOOD = {"image_id": 1, "caption": "a"}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([GOOD], "Input should be a valid dictionary"),
        ({}, "holds no references"),
        ({"annotations": [GOOD]}, "the key images is missing"),
        ({"images": [{"id": 1}, {"name": 2}], "annotations": []}, "the key images.1.id is missing"),
        ({"images": [{"id": True}], "annotations": []}, "images.0.id"),
        (
            {"images": [{"id": 1, "file_name": "a.png"}, {"id": 1, "file_name": "b.png"}], "annotations": []},
            "the image 1 two file names, 'a.png' and 'b.png'",
        ),
        ({"images": [{"id": 2}], "annotations": [GOOD]}, "entry 1: image 1 is not listed"),
        ({"images": [{"id": 1}], "annotations": [{"image_id": 1}]}, "annotations.0.caption is missing"),
        ({"x": "a"}, "x: Input should be a valid list"),
        ('{"x": ["a"], "y": ["b"], "x": ["c"]}', "has the key 'x' more than once"),
    ],
)
def test_wrong_references(file, value, said):
    path = file(value)
    found = refused(lambda: read_references(path))
    assert said in found
    assert str(path) in found


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=80) | st.binary(max_size=80))
def test_any_content_is_read_or_refused(tmp_path, content):
    path = tmp_path / "answers"
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    for read in (read_predictions, read_scores):
        with suppress(InputError):
            read(path, PAIRS)
