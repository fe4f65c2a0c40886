"""Files of negatives: written, read back, and refused by line."""

import json

import pytest

from pipeline.datasets.negatives import Negative, Negatives, read_negatives, write_negatives
from pipeline.io.errors import InputError

SIX = tuple(
    Negative("replace", f"the ball turned {word}")
    for word in ["red", "blue", "gray", "cyan", "green", "brown"]
)
PAIR = Negatives("000.png", "train", ("the ball turned yellow",), SIX)


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "negatives.jsonl"
    write_negatives(path, [PAIR, Negatives("001.png", "val", ("é",), SIX)])
    record = json.loads(path.read_text("utf-8").split("\n")[0])
    assert list(record) == ["pair_id", "split", "captions", "negatives"]
    assert record["negatives"][0] == {"kind": "replace", "caption": "the ball turned red"}
    assert read_negatives(path) == {name: [own.caption for own in SIX] for name in ("000.png", "001.png")}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"pair_id": 1}, "line 2: pair_id: Input should be a valid string"),
        ({"negatives": []}, "line 2: negatives: Tuple should have at least 6 items"),
        ({"negatives": [{"kind": "replace", "caption": "a"}] * 7}, "at most 6 items"),
        ({"negatives": [{"kind": "guess", "caption": "a"}] * 6}, "line 2: negatives.0.kind: .* not 'guess'"),
        ({}, "the pair_id '000.png' is in an earlier line; write it with"),
    ],
)
def test_a_line_that_is_no_pair_is_named(tmp_path, change, said):
    path = tmp_path / "negatives.jsonl"
    write_negatives(path, [PAIR])
    path.write_text(path.read_text() + json.dumps(json.loads(path.read_text()) | change) + "\n")
    with pytest.raises(InputError, match=said) as caught:
        read_negatives(path)
    assert "\n" not in str(caught.value)
