"""The command errors: faults of records, of finished runs, and of captions from any program."""

import json
from dataclasses import replace

import pytest

from pipeline.datasets.schema import write_pairs
from tests import project_params
from tests.pipeline.judging.test_verdicts import DROPPED, GREEN, STILL
from tests.recorded import three_seeds
from tests.running import refuse, succeed
from tests.scored import line, write

PAIRS = [replace(pair, pair_id=f"{n}.png") for n, pair in enumerate((DROPPED, DROPPED, GREEN, STILL))]
SAID = [
    "the cube is missing",
    "the metal cube is gone",
    "the red metal ball became brown",
    "there is no change",
]


def rows(said):
    """Name -> numbers, as printed."""
    lines = [row.split() for row in said.splitlines()]
    return {row[0]: row[1:] for row in lines if len(row) > 10 and "." in row[1]}


def test_captions_are_judged_by_their_pairs(tmp_path, capsys):
    write_pairs(tmp_path / "pairs.jsonl", PAIRS)
    captions = [{"image_id": pair.pair_id, "caption": said} for pair, said in zip(PAIRS, SAID, strict=True)]
    (tmp_path / "said.json").write_text(json.dumps(captions))
    succeed(tmp_path, "errors said.json --pairs pairs.jsonl --figure bars.svg")
    # true, n, g, k, c, m, s, z, r, v, a, another object, one part only, false alarm
    expected = "33.3 0.0 0.0 0.0 0.0 0.0 33.3 0.0 0.0 33.3 33.3 0.0 50.0 0.0"
    assert " ".join(rows(capsys.readouterr().out)["said.json"]) == expected
    assert "false captions of changed pairs" in (tmp_path / "bars.svg").read_text()
    (tmp_path / "said.json").write_text(json.dumps(captions[:2]))
    refuse(
        tmp_path, "errors said.json --pairs pairs.jsonl", "said.json has no caption of the test pair 2.png"
    )
    write_pairs(tmp_path / "pairs.jsonl", [replace(pair, scene=None) for pair in PAIRS])
    refuse(tmp_path, "errors said.json --pairs pairs.jsonl", "has no scene of the pair 0.png; use a rendered")


def test_faults_of_a_finished_run(tmp_path, capsys):
    folder = tmp_path / "tabletop/rr/1"
    folder.mkdir(parents=True)
    told = [("cs", True), ("", True), ("t", False), ("", False)]
    scored = [line(n) | {"faults": own, "changed": changed} for n, (own, changed) in enumerate(told)]
    write(folder / "pairs.jsonl", scored)
    succeed(tmp_path, "errors tabletop/rr/1")
    (found,) = rows(capsys.readouterr().out).items()
    assert found[0] == "tabletop/rr/1"
    assert found[1][0] == found[1][4] == found[1][6] == found[1][-1] == "50.0"
    write(folder / "pairs.jsonl", [line(0)])
    refuse(tmp_path, "errors tabletop/rr/1/pairs.jsonl", "pairs.jsonl has no faults")


def test_faults_of_the_records(tmp_path, capsys):
    project_params.write(tmp_path)
    refuse(tmp_path, "errors", "there is no record in results/records; run a study, or name finished runs")
    three_seeds(tmp_path)
    succeed(tmp_path, "errors")
    assert [*rows(capsys.readouterr().out)] == ["rr", "subtraction"]


@pytest.mark.parametrize(
    ("command", "said"),
    [("errors --pairs x", "--pairs needs a file of captions"), ("errors a --figure a", "a is named twice")],
)
def test_wrong_arguments_are_refused(tmp_path, command, said):
    refuse(tmp_path, command, said)
