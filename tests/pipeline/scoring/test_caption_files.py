"""Captions, references and scores in the files of any program, and every way in which they can be wrong."""

import json
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.datasets.schema import Pair
from pipeline.io.errors import InputError
from pipeline.scoring.caption_files import read_answers, read_predictions, read_results, read_scores
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
    "CSV with semicolons and capitals": "ID;Prediction\n0.png;the cube, red, moved\n1.png;no change\n",
    "Excel's first line": "sep=;\nid;caption;\n0.png;the cube, red, moved;\n1.png;no change;\n",
    "a space after the comma": 'id, prediction\n0.png, "the cube, red, moved"\n1.png, no change\n',
    "JSON lines with \\r\\n": lines(rows("id", "prediction")).replace("\n", "\r\n"),
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


SEVERAL = {
    "two answers": lines(
        {"id": name, "caption": "a reference", "response": said} for name, said in TEXTS.items()
    ),
    "a null": lines({"id": name, "answer": "x", "response": None} for name in TEXTS),
    "another key in another row": lines([{"id": "0.png", "pred": "x"}, {"id": "1.png", "answer": "x"}]),
    "two columns": "id,answer,prediction\n0.png,x,y\n1.png,x,y\n",
    "generated_text": lines({"id": name, "caption": "x", "generated_text": "y"} for name in TEXTS),
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


@pytest.mark.parametrize("text", SEVERAL.values(), ids=SEVERAL)
def test_of_several_keys_the_user_names_one(file, text):
    path = file(text)
    for read in (read_predictions, read_answers):
        assert "--key" in refused(lambda read=read: read(path, PAIRS))
    assert "--key" in refused(lambda: read_results(path))
    assert "'verdict'" in refused(lambda: read_results(path, key="verdict"))


def test_the_named_key_is_read_and_no_other(file):
    path = file(SEVERAL["two answers"])
    assert read_predictions(path, PAIRS, "response") == read_results(path, key="response") == TEXTS
    path = file(SEVERAL["another key in another row"])
    assert f"{path}, entry 2" in refused(lambda: read_answers(path, PAIRS, "pred"))
    assert read_predictions(file(NAMED["CSV with semicolons and capitals"]), PAIRS, "Prediction") == TEXTS
    scores = lines({"id": name, "score": 2, "verdict": True} for name in TEXTS)
    assert "score, verdict" in refused(lambda: read_scores(file(scores), PAIRS))
    assert [*read_scores(file(scores), PAIRS, "verdict").values()] == [1, 1]


@pytest.mark.parametrize("missing", ["null", "NaN", '""'])
def test_a_null_is_a_missing_answer(file, missing):
    path = file(f'[{{"id": "0.png", "caption": {missing}}}, {{"id": "1.png", "caption": "x"}}]')
    assert read_answers(path, PAIRS) == {"0.png": "", "1.png": "x"}
    log = lines([{"doc_id": 0, "resps": [[None]]}, {"doc_id": 1, "resps": [["x"]]}])
    assert read_answers(file(log), PAIRS) == {"0.png": "", "1.png": "x"}


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"])
def test_only_a_newline_ends_a_row(file, end):
    said = {"0.png": f"the cube{end}moved", "1.png": "x"}
    raw = "".join(f'{{"id": "{name}", "caption": "{text}"}}\n' for name, text in said.items())
    if end >= "\x20":  # JSON allows no control characters in texts
        assert read_predictions(file(raw), PAIRS) == said
    table = "".join(f"{name},{text}\n" for name, text in said.items())
    assert read_predictions(file(f"id,caption\n{table}"), PAIRS) == said


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (('"The cube" moved', "x"), ('"The cube" moved', "x")),
        (('"The cube', 'moved"'), ('"The cube', 'moved"')),
        (('"The ""cube""\nmoved"', '"x"'), ('The "cube"\nmoved', "x")),
        (('5" wide', "x"), ('5" wide', "x")),
    ],
)
def test_quotation_marks_in_a_tsv(file, fields, expected):
    rows = "".join(f"{n}\t{field}\n" for n, field in enumerate(fields))
    assert read_predictions(file(f"index\tprediction\n{rows}"), PAIRS) == dict(
        zip(TEXTS, expected, strict=True)
    )


@pytest.mark.parametrize("head", ["id,caption,caption", "ID,Caption,caption ", "id,id,caption"])
def test_a_column_named_twice_is_refused(file, head):
    assert "more than once" in refused(lambda: read_results(file(f"{head}\n0.png,a,b\n")))


def test_a_position_never_replaces_an_id(file):
    unknown = [{"index": n, "id": f"{n + 5}.png", "caption": "x"} for n in (0, 1)]
    for rows_of in (unknown, [{"doc_id": n, "doc": row, "resps": "x"} for n, row in enumerate(unknown)]):
        said = refused(lambda rows_of=rows_of: read_predictions(file(lines(rows_of)), PAIRS))
        assert "'5.png'" in said
    scores = [{"index": n, "pair_id": f"{n + 5}.png", "score": 1} for n in (0, 1)]
    assert "'5.png'" in refused(lambda: read_scores(file(lines(scores)), PAIRS))
    mixed = [{"index": 1, "id": "0.png", "caption": "x"}, {"index": 0, "caption": "y"}]
    assert "0.png has an entry before" in refused(lambda: read_predictions(file(lines(mixed)), PAIRS))
    numbered = [Pair(name, name, "test", "a", "b", ("x",)) for name in ("1", "0")]
    own = lines({"index": n, "caption": str(n)} for n in (0, 1))
    assert read_predictions(file(own), numbered) == {"1": "1", "0": "0"}  # `index` has the pairs' ids


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
    for read in (read_predictions, read_answers, read_scores):
        with suppress(InputError):
            read(path, PAIRS)
