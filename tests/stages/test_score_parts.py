"""Captions of some of the references, and prepared pairs of a part of the test split."""

import json
from pathlib import Path

import pytest

from pipeline.datasets import manifest
from pipeline.datasets.manifest import Manifest
from pipeline.datasets.schema import write_pairs
from tests.stages.test_score import CAPTIONS, PAIRS, ROOT, write_captions


@pytest.mark.usefixtures("made_up_meteor")
def test_references_of_more_than_the_predicted_ids(tmp_path: Path, leaves) -> None:
    """Some programs' files hold the references of all splits, and some of these are empty."""
    given = write_captions(tmp_path / "captions.json", [("1", "a car"), (2, "a man")])
    found = {"1": ["a car"], "2": ["a man"], "3": ["a dog"], "4": []}
    (tmp_path / "references.json").write_text(json.dumps(found))
    out = tmp_path / "out.json"
    command = ["--captions", given, "--references", str(tmp_path / "references.json"), "--tokeniser", "none"]

    def score(*arguments: str) -> str:
        return leaves("score", *command, *arguments, "--out", str(out))

    code, _, said = score()
    assert (code, out.exists()) == (2, False)
    assert "--predicted-only" in said
    assert "3: has no prediction" in said
    code, printed, said = score("--predicted-only")
    assert code == 0, said
    assert printed.startswith("2 ids are predicted and scored; 2 of the references are not\n")
    assert json.loads(out.read_text())["exact_match"] == 1.0
    del found["2"]
    (tmp_path / "references.json").write_text(json.dumps(found))
    code, _, said = score("--predicted-only")
    assert code == 2
    assert "2: is predicted but has no references" in said


@pytest.mark.parametrize("stage", ["score", "constant"])
def test_part_of_the_prepared_pairs_is_refused(tmp_path, leaves, monkeypatch, stage) -> None:
    monkeypatch.chdir(ROOT)
    given = write_captions(tmp_path / "captions.json", [*CAPTIONS.items()][:3])
    test = [pair for pair in PAIRS if pair.split == "test"]
    pairs, out = tmp_path / "pairs", tmp_path / "out.json"
    write_pairs(pairs, test[:3])
    manifest.write(tmp_path / "manifest", Manifest("table", None, {}, {"test": {"pairs": len(test)}}))
    command = [*("--pairs", pairs, "--manifest", tmp_path / "manifest"), "--captions", given, "--out", out]
    code, _, said = leaves(stage, *command, *(["--dataset", "tabletop"] if stage == "constant" else []))
    assert (code, out.exists()) == (2, False)
    assert f"{pairs} has 3 pairs of the split test, and its manifest says 5" in said
