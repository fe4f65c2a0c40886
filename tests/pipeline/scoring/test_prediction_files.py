"""Predictions and scores in the files of other programs."""

import json
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.datasets.schema import Pair
from pipeline.io.errors import InputError
from pipeline.scoring.prediction_files import read_predictions, read_scores
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
BY_PLACE = [{"doc_id": n, "resps": [[said]]} for n, said in enumerate(TEXTS.values())]
FORMS = {
    "COCO results": json.dumps(rows("image_id", "caption")),
    "commands.caption": lines(rows("pair_id", "caption")),
    "JSON lines, id and prediction": lines(rows("id", "prediction")),
    "a JSON list over several lines": json.dumps(rows("question_id", "response"), indent=1),
    "id -> text": json.dumps(TEXTS, indent=1),
    "CSV": 'id,prediction\n0.png,"the cube, red, moved"\n1.png,no change\n',
    "lmms-eval": lines(LOG),
    "lmms-eval, one JSON": json.dumps({"args": {}, "logs": LOG}),
    "lmms-eval, ids by place": lines(BY_PLACE),
    "VLMEvalKit, tsv": "index\tquestion\tprediction\n0\tWhat?\tthe cube, red, moved\n1\tWhat?\tno change\n",
    "VLMEvalKit, json": json.dumps(
        [{"index": n, "image_id": name, "prediction": said} for n, (name, said) in enumerate(TEXTS.items())]
    ),
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_every_form_is_read(tmp_path, text):
    path = tmp_path / "answers"
    path.write_text(text)
    assert read_predictions(path, PAIRS) == TEXTS


WRONG = {
    "nothing": ("[]", "has no entry"),
    "a pair twice": (lines(rows("id", "caption") * 2), "entry 3: 0.png has an entry before"),
    "an unknown pair": (lines([{"id": "9.png", "caption": "x"}]), "'9.png' is no pair of this split"),
    "no id": (lines([{"caption": "x"}] * 2), "entry 1 has no id"),
    "no text": (lines([{"id": "0.png", "note": "x"}]), "entry 1 has no text"),
    "an empty answer": (lines([{"doc_id": 0, "resps": [[]]}]), "entry 1 has no answer"),
    "no object": ("[1, 2]", "no objects"),
    "half a file": ('{"id": "0.png", "caption"', "is not valid JSON"),
    "a row too long": ("id,caption\n0.png,a,b\n", "entry 1 has another number of fields"),
    "an open quotation mark": ('id,caption\n0.png,"a\n', "is not readable as a table"),
    "a workbook": (b"PK\3\4xxxx", "workbook"),
}


@pytest.mark.parametrize(("content", "said"), WRONG.values(), ids=WRONG)
def test_a_wrong_file_is_refused_by_name(tmp_path, content, said):
    path = tmp_path / "answers"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found = refused(lambda: read_predictions(path, PAIRS))
    assert said in found
    assert str(path) in found


def test_a_pair_without_an_entry_is_named(tmp_path):
    path = tmp_path / "answers"
    path.write_text(lines(rows("id", "caption")[:1]))
    with pytest.raises(InputError) as caught:
        read_predictions(path, PAIRS)
    assert "1.png" in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (lines([{"id": "0.png", "score": 7.5}, {"id": "1.png", "score": 3}]), [7.5, 3]),
        (lines([{"id": "0.png", "verdict": True}, {"id": "1.png", "verdict": "wrong"}]), [1, 0]),
        ("id,rating\n0.png,10\n1.png,0.5\n", [10, 0.5]),
        (json.dumps({"0.png": 1, "1.png": 2}), [1, 2]),
    ],
)
def test_scores_are_read(tmp_path, text, expected):
    path = tmp_path / "scores"
    path.write_text(text)
    assert [*read_scores(path, PAIRS).values()] == expected


@pytest.mark.parametrize("score", ["good", None, "nan", ""])
def test_a_score_that_is_no_number_is_refused(tmp_path, score):
    path = tmp_path / "scores"
    path.write_text(lines([{"id": "0.png", "score": score}]))
    assert f"{path}, entry 1" in refused(lambda: read_scores(path, PAIRS))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=80) | st.binary(max_size=80))
def test_any_content_is_read_or_refused(tmp_path, content):
    path = tmp_path / "answers"
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    for read in (read_predictions, read_scores):
        with suppress(InputError):
            read(path, PAIRS)
