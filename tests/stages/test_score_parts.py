"""Part of a test split, and references of more than it: said, or refused."""

import json
from contextlib import nullcontext
from pathlib import Path

import pytest

from pipeline.datasets import manifest
from pipeline.datasets.manifest import Manifest
from pipeline.datasets.schema import write_pairs
from pipeline.scoring import meteor
from pipeline.scoring.meteor import Meteor
from tests.stages.test_score import CAPTIONS, PAIRS, ROOT, write_captions


def test_references_of_more_than_the_predicted_ids(tmp_path: Path, monkeypatch, leaves) -> None:
    """Some programs' files hold the references of all splits, a few of them empty."""
    given = write_captions(tmp_path / "captions.json", [("1", "a car"), (2, "a man")])
    found = {"1": ["a car"], "2": ["a man"], "3": ["a dog"], "4": []}
    (tmp_path / "references.json").write_text(json.dumps(found))
    against = ["--captions", given, "--references", str(tmp_path / "references.json"), "--tokeniser", "none"]
    out = tmp_path / "out.json"

    def refused(*arguments: str) -> str:
        code, _, err = leaves("score", *arguments, "--out", str(out))
        assert (code, out.exists()) == (2, False)
        return str(err)

    told = refused(*against)
    assert "--predicted-only" in told
    assert "3: has no prediction" in told
    for name, value in {"started": lambda *_: nullcontext(), "scores": half}.items():
        monkeypatch.setattr(meteor, name, value)
    code, said, err = leaves("score", *against, "--predicted-only", "--out", str(out))
    assert code == 0, err
    assert said.startswith("2 ids are predicted and scored; 2 of the references are not\n")
    assert json.loads(out.read_text())["exact_match"] == 1.0
    del found["2"]
    (tmp_path / "references.json").write_text(json.dumps(found))
    out.unlink()
    assert "2: is predicted but has no references" in refused(*against, "--predicted-only")
    assert "--predicted-only needs --references" in refused(
        "--captions", given, "--pairs", "p", "--predicted-only"
    )


def half(jvm: None, asked: dict, subsets: dict) -> Meteor:
    """Half of METEOR's points."""
    counts = {key: [0.0] * 23 for key in asked}
    return Meteor(dict.fromkeys(subsets, 0.5), dict.fromkeys(asked, 0.5), counts)


@pytest.mark.parametrize("stage", ["score", "constant"])
def test_part_of_the_prepared_pairs_is_refused(tmp_path, leaves, monkeypatch, stage) -> None:
    """Half of the test split would else be scored as if it were all."""
    monkeypatch.chdir(ROOT)
    given = write_captions(tmp_path / "captions.json", [*CAPTIONS.items()][:3])
    test = [pair for pair in PAIRS if pair.split == "test"]
    write_pairs(tmp_path / "pairs", test[:3])
    counted = {"test": {"pairs": len(test)}}
    manifest.write(tmp_path / "manifest", Manifest("table", None, {}, counted))
    out = str(tmp_path / "out.json")
    chosen = [
        "--pairs",
        tmp_path / "pairs",
        "--manifest",
        tmp_path / "manifest",
        "--captions",
        given,
        "--out",
        out,
    ]
    code, _, said = leaves(stage, *chosen, *(["--dataset", "tabletop"] if stage == "constant" else []))
    assert (code, (tmp_path / "out.json").exists()) == (2, False)
    assert f"{tmp_path / 'pairs'} has 3 pairs of the split test, and its manifest says 5" in said
