"""Captions of other programs that the grammar cannot parse are not judged."""

import json
from dataclasses import replace

import pytest

from pipeline.datasets.schema import Pair, write_pairs
from pipeline.scoring.results import GEOMETRIC, correctness
from tests import project_params
from tests.running import refuse, succeed
from tests.tabletop_pairs import draw_pairs


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    return [replace(pair, split="test") for pair in draw_pairs(seed=5, count=20)]


def in_free_english(pair: Pair) -> str:
    """A true sentence that the grammar cannot parse."""
    if not pair.changed:
        return "both pictures agree in all respects"
    return f"Compare both pictures: {pair.captions[0]}, isn't it?"


@pytest.mark.parametrize("scenes", [True, False], ids=["by scenes", "by references"])
def test_a_sentence_in_other_words_is_not_judged(pairs: list[Pair], scenes: bool) -> None:
    own = pairs if scenes else [replace(pair, scene=None, changed_object=None) for pair in pairs]
    # references are parsed more freely
    other = [pair.pair_id for pair in own[::3] if scenes or not pair.changed]
    captions = {pair.pair_id: pair.captions[0] for pair in own}
    captions |= {pair.pair_id: in_free_english(pair) for pair in own if pair.pair_id in other}
    empty = own[1].pair_id
    captions[empty] = " ."
    metric = "true" if scenes else "agrees"
    ours = correctness(captions, own, GEOMETRIC)
    theirs = correctness(captions, own, GEOMETRIC, outside=True)
    assert ours.not_judged == []
    assert theirs.not_judged == other
    assert {key for key, truth in ours.pairs.items() if truth[metric] is False} == {*other, empty}
    expected = {key: None if key in other else key != empty for key in captions}
    assert {key: truth[metric] for key, truth in theirs.pairs.items()} == expected
    assert theirs.right == ours.right  # whoever wrote the caption
    if scenes:
        assert {key for key, truth in theirs.pairs.items() if truth["faults"] is None} == {*other}
        assert (ours.attributes["type"] or 0) < (theirs.attributes["type"] or 0)


def test_the_references_of_unchanged_pairs_report_no_change_in_any_language(pairs: list[Pair]) -> None:
    still, changed = (next(pair for pair in pairs if pair.changed is kind) for kind in (False, True))
    captions = {still.pair_id: "rien n'a bougé", changed.pair_id: "Rien n'a  bougé."}
    own = [
        replace(pair, captions=("Rien n'a bougé.",) if pair is still else ("x",)) for pair in (still, changed)
    ]
    assert correctness(captions, own).right == {still.pair_id: True, changed.pair_id: False}
    assert correctness(captions, [still, changed]).right == {still.pair_id: False, changed.pair_id: True}
    bare = [replace(pair, scene=None, changed_object=None) for pair in own]
    assert correctness(captions, bare, GEOMETRIC).pairs[still.pair_id]["agrees"] is True


@pytest.mark.usefixtures("without_java")
def test_scores_have_the_number_and_truth_is_not_compared(tmp_path, capsys, pairs: list[Pair]) -> None:
    project_params.write(tmp_path, score__tokeniser="none")
    write_pairs(tmp_path / "pairs", pairs)
    sentences = {"ours": lambda pair: pair.captions[0], "theirs": in_free_english}
    sentences["some"] = lambda pair: in_free_english(pair) if pair is pairs[0] else pair.captions[0]
    for name, sentence in sentences.items():
        said = [{"image_id": pair.pair_id, "caption": sentence(pair)} for pair in pairs]
        (tmp_path / name).write_text(json.dumps(said))
        out = f"--out {name}.json --per-pair {name}.jsonl"
        done = succeed(tmp_path, f"score --captions {name} --pairs pairs {out}")
        assert ("are not judged (the first is of " in done.stderr) == (name != "ours")
    scores = {name: json.loads((tmp_path / f"{name}.json").read_text()) for name in sentences}
    assert [own.get("not_judged") for own in scores.values()] == [None, len(pairs), 1]
    assert [own["total"].get("true") for own in scores.values()] == [1.0, None, 1.0]
    for name in ("theirs", "some"):
        capsys.readouterr()
        count = scores[name]["not_judged"]
        command = f"compare ours.jsonl --against {name}.jsonl --resamples 50"
        refuse(tmp_path, command, f"B: {count} captions are")
        printed = capsys.readouterr().out
        assert "CIDEr-D" in printed
        assert "points true" not in printed
    succeed(tmp_path, "compare ours.jsonl --against ours.jsonl --resamples 50")
    assert "points true" in capsys.readouterr().out
    done = succeed(tmp_path, "errors some.jsonl")
    assert "are not judged (the first is of " in done.stderr
    assert succeed(tmp_path, "errors some --pairs pairs").stderr == done.stderr
    refuse(tmp_path, "errors theirs.jsonl", "theirs.jsonl has no pair with a change")
