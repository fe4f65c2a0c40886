"""Captions of other programs that the grammar cannot parse are false, and their share is stated."""

import json
from dataclasses import replace

import pytest

from pipeline.config import params
from pipeline.datasets.schema import Pair, write_pairs
from pipeline.scoring.accuracy import PHRASES, says_no_change
from pipeline.scoring.results import GEOMETRIC, correctness
from pipeline.tabletop import words
from tests import project_params
from tests.running import succeed
from tests.tabletop_pairs import draw_pairs


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    return [replace(pair, split="test") for pair in draw_pairs(seed=5, count=20)]


def in_free_english(pair: Pair) -> str:
    """A true sentence that the grammar cannot parse."""
    if not pair.changed:
        return "both pictures show one and the same scene"
    return f"Compare both pictures: {pair.captions[0]}, isn't it?"


@pytest.mark.parametrize("scenes", [True, False], ids=["by scenes", "by references"])
def test_a_sentence_in_other_words_is_false_and_unreadable(pairs: list[Pair], scenes: bool) -> None:
    own = pairs if scenes else [replace(pair, scene=None, changed_object=None) for pair in pairs]
    # references are parsed more freely
    other = [pair.pair_id for pair in own[::3] if scenes or not pair.changed]
    captions = {pair.pair_id: pair.captions[0] for pair in own}
    captions |= {pair.pair_id: in_free_english(pair) for pair in own if pair.pair_id in other}
    empty = own[1].pair_id
    captions[empty] = " ."
    metric = "true" if scenes else "agrees"
    truth = correctness(captions, own, PHRASES, GEOMETRIC)
    assert {*truth.unreadable} == {*other, empty}
    assert {key for key, judged in truth.pairs.items() if judged[metric] is False} == {*other, empty}
    shares = truth.shares(captions)  # over all pairs
    assert shares["unreadable"] == (len(other) + 1) / len(own)
    assert shares[metric] == 1 - shares["unreadable"]


def test_there_is_one_list_of_phrases(request: pytest.FixtureRequest, pairs: list[Pair]) -> None:
    assert params.load(request.config.rootpath / "params.yaml").score.no_change_phrases == PHRASES
    assert all(says_no_change(sentence, PHRASES) for sentence in words.NO_CHANGE)
    still = next(pair for pair in pairs if not pair.changed)
    captions = {still.pair_id: "rien n'a bougé"}
    (own, other) = (correctness(captions, [still], phrases) for phrases in (PHRASES, ["rien"]))
    assert (own.right, own.pairs[still.pair_id]["true"]) == ({still.pair_id: False}, False)
    assert (other.right, other.pairs[still.pair_id]["true"]) == ({still.pair_id: True}, True)


@pytest.mark.usefixtures("without_java")
def test_all_pairs_are_the_denominator_and_the_unreadable_share_has_a_column(
    tmp_path, capsys, pairs: list[Pair]
) -> None:
    project_params.write(tmp_path, score__tokeniser="none")
    write_pairs(tmp_path / "pairs", pairs)
    sentences = {"ours": lambda pair: pair.captions[0], "theirs": in_free_english}
    sentences["some"] = lambda pair: in_free_english(pair) if pair is pairs[0] else pair.captions[0]
    for name, sentence in sentences.items():
        said = [{"image_id": pair.pair_id, "caption": sentence(pair)} for pair in pairs]
        (tmp_path / name).write_text(json.dumps(said))
        out = f"--out {name}.json --per-pair {name}.jsonl"
        done = succeed(tmp_path, f"score --captions {name} --pairs pairs {out}")
        assert ("count as false (the first is of " in done.stderr) == (name != "ours")
    scores = {name: json.loads((tmp_path / f"{name}.json").read_text())["total"] for name in sentences}
    count = len(pairs)
    assert [own["unreadable"] for own in scores.values()] == [0, 1, round(1 / count, 6)]
    assert [own["true"] for own in scores.values()] == [1, 0, round(1 - 1 / count, 6)]
    capsys.readouterr()
    succeed(tmp_path, "compare ours.jsonl --against theirs.jsonl --resamples 50")
    assert "A is better than B by 100.0 points true" in capsys.readouterr().out
    done = succeed(tmp_path, "errors some.jsonl")
    assert "count as false (the first is of " in done.stderr
    assert succeed(tmp_path, "errors some --pairs pairs").stderr == done.stderr
