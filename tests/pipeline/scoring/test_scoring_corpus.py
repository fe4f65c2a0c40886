"""Scores of a corpus against pycocoevalcap's own wrappers, and odd captions.

METEOR's tables load for seconds, so one corpus has all sets of captions as subsets.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from pipeline.io.errors import InputError
from pipeline.scoring import java, meteor, spice
from pipeline.scoring.corpus import Corpus as CorpusToScore
from pipeline.scoring.corpus import Scores, score, score_each
from pipeline.scoring.meteor import from_statistics
from pipeline.scoring.metrics import bleu

Corpus = tuple[dict[str, str], dict[str, list[str]]]

SANE: Corpus = (
    {
        "1": "The red car is gone.",
        "2": "a man in a blue shirt has appeared near the door",
        "3": "there are no differences",
        "4": "two people walking are no longer there",
        "5": "the small green metal cylinder that is behind the big cube changed its location",
        "6": "There is no difference.",
    },
    {
        "1": ["the red vehicle has left", "a red car isn't there anymore", "The red car is gone!"],
        "2": ["a person wearing blue appeared by the door"],
        "3": ["no change was made", "the scene is the same as before", "nothing is different"],
        "4": ["the two persons that walked left", "2 people are missing"],
        "5": ["the small green shiny cylinder moved", "someone changed the location of the tiny green thing"],
        "6": ["no change", "there is no difference"],
    },
)
NASTY: Corpus = (
    {
        "empty": "",
        "blank": " \t ",
        "punctuation": "...",
        "marks": "?! ' - ``",
        "line breaks": "the\rcar\vis\fgone\n\u2028now\u2029\x85.",
        "control": "the car \0 is \x1b gone\x7f",
        "separator": "the car ||| is gone |||",
        "separators": "|||| ||| ||",
        "command": "EVAL ||| 1.0",
        "newline token": "*NL* </s> <br>",
        "long": "the car is gone " * 625,
        "one long word": "x" * 10_000,
        "other scripts": "машина é 車 😀",
    },
    {},
)
NASTY[1].update({key: ["the car is gone", "a car ||| has\rleft", " ", "."] for key in NASTY[0]})

LIBRARY = """
import json, sys
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.meteor import meteor
from pycocoevalcap.rouge.rouge import Rouge
from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer
meteor.__file__ = sys.argv[1]
captions, references = json.load(sys.stdin)
def tokens(texts):
    return PTBTokenizer().tokenize({key: [{"caption": text} for text in own] for key, own in texts.items()})
res, gts = tokens({key: [caption] for key, caption in captions.items()}), tokens(references)
scores = {"METEOR": meteor.Meteor(), "ROUGE-L": Rouge(), "CIDEr-D": Cider()}
scores = {name: scorer.compute_score(gts, res) for name, scorer in scores.items()}
bleu, _ = Bleu().compute_score(gts, res, verbose=0)
corpus = {name: score[0] for name, score in scores.items()} | {f"BLEU-{n}": b for n, b in enumerate(bleu, 1)}
print(json.dumps({"corpus": corpus, "pairs": {name: list(score[1]) for name, score in scores.items()}}))
"""


def as_subsets(sets: dict[str, Corpus]) -> tuple[dict[str, str], dict[str, list[str]], dict[str, list[str]]]:
    captions, references = (
        {f"{name} {key}": value for name, parts in sets.items() for key, value in parts[i].items()}
        for i in (0, 1)
    )
    return captions, references, {name: [f"{name} {key}" for key in parts[0]] for name, parts in sets.items()}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    """A process in which the library's own wrappers score the set SANE, and may hang."""
    # a folder without a space in its name
    copy = tmp_path_factory.mktemp("library") / "meteor"
    shutil.copytree(Path(find_spec("pycocoevalcap.meteor.meteor").origin).parent, copy)
    path = f"{java.find().parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "JAVA_TOOL_OPTIONS": "-XX:+UseSerialGC"}
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(
        [sys.executable, "-c", LIBRARY, str(copy / "meteor.py")], **pipes, env=environment, text=True
    ) as process:
        process.stdin.write(json.dumps(SANE))
        process.stdin.close()
        process.stdin = None  # for communicate
        yield process
        process.kill()  # where the test that waits for it was not asked for


@pytest.fixture(scope="module")
def everything(library: subprocess.Popen[str]) -> Scores:
    sets = {"sane": SANE, "nasty": NASTY, "one": ({"1": "a"}, {"1": ["a b"]})}
    captions, references, subsets = as_subsets(sets)
    return score(captions, references, subsets, meteor_timeout=120)


def test_the_librarys_wrappers_give_the_same_scores(
    everything: Scores, library: subprocess.Popen[str]
) -> None:
    said, errors = library.communicate(timeout=120)
    assert library.returncode == 0, errors
    expected = json.loads(said)
    found = everything.subsets["sane"]
    assert {name: found[name] for name in expected["corpus"]} == expected["corpus"]
    for name in ("METEOR", "ROUGE-L"):
        each = [everything.pairs[f"sane {key}"][name] for key in SANE[0]]
        assert each == expected["pairs"][name]
        assert len(set(each)) > 4


def test_odd_captions_have_scores(everything: Scores) -> None:
    nasty = {key: everything.pairs[f"nasty {key}"] for key in NASTY[0]}
    metrics = ("BLEU-4", "METEOR", "ROUGE-L", "CIDEr-D")
    for key in ("empty", "blank", "punctuation", "one long word", "other scripts", "newline token"):
        assert {name: nasty[key][name] for name in metrics} == pytest.approx(
            dict.fromkeys(metrics, 0.0), abs=1e-6
        ), key
    for key in ("line breaks", "control", "separator"):
        assert nasty[key]["METEOR"] > 0.3, key
    assert all(0 <= scores[name] <= 10 for scores in nasty.values() for name in metrics)


def test_a_subset_has_its_own_document_frequencies(everything: Scores) -> None:
    with_the_total_s = [everything.pairs[f"sane {key}"]["CIDEr-D"] for key in SANE[0]]
    mean = sum(with_the_total_s) / len(with_the_total_s)
    assert abs(everything.subsets["sane"]["CIDEr-D"] - mean) > 0.05
    assert everything.subsets["sane"]["CIDEr-D/corpus-df"] == pytest.approx(mean, rel=1e-12)
    assert everything.subsets["total"]["CIDEr-D/corpus-df"] == everything.subsets["total"]["CIDEr-D"]


def members(everything: Scores) -> dict[str, list[str]]:
    names = list(everything.pairs)
    return {"total": names} | {
        name: [key for key in names if key.startswith(f"{name} ")]
        for name in everything.subsets
        if name != "total"
    }


def test_scores_of_a_corpus_follow_from_the_sums_of_its_pairs_counts(everything: Scores) -> None:
    for name, keys in members(everything).items():
        counts = [everything.pairs[key]["bleu"] for key in keys]
        sums = [[*c["matches"], *c["guesses"], c["length"], c["reference_length"]] for c in counts]
        expected = [everything.subsets[name][f"BLEU-{n}"] for n in (1, 2, 3, 4)]
        assert bleu(np.array(sums).sum(0)) == expected, name
        assert len(set(expected)) == 4
        statistics = np.array([everything.pairs[key]["meteor"] for key in keys])
        meteor = everything.subsets[name]["METEOR"]
        assert from_statistics(statistics.sum(0)) == pytest.approx(meteor, abs=1e-12)
        pairs = [everything.pairs[key]["METEOR"] for key in keys]
        assert from_statistics(statistics) == pytest.approx(pairs, abs=1e-12)
    equal = everything.pairs["sane 6"]
    assert equal["METEOR"] == 1
    assert equal["meteor"][20:] == [0, 4, 4]  # one chunk, but a corpus counts none


def test_what_the_captions_are_like(everything: Scores) -> None:
    tokens = [everything.pairs[key]["bleu"]["length"] for key in everything.pairs]
    wording = everything.wording
    assert wording["mean_length"] == pytest.approx(sum(tokens) / len(tokens))
    # "the red car is gone" and "there is no difference" of SANE, and NASTY's control characters
    assert wording["exact_match"] == pytest.approx(3 / len(everything.pairs))
    assert wording["distinct_captions"] < len(everything.pairs)


@pytest.mark.usefixtures("without_java")
def test_a_subsets_spice_is_the_mean_of_its_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    captions = {"b": "the red cube moved", "a": "nothing changed", "c": "a ball is gone"}
    values = {"b": 0.5, "a": 0.0, "c": 0.25}
    monkeypatch.setattr(spice, "unavailable", lambda timeout: None)
    monkeypatch.setattr(spice, "scores", lambda captions, references, timeout: values)
    found = score(captions, {key: [text] for key, text in captions.items()}, {"part": ["c", "b"]}, 60, "none")
    assert {key: own["SPICE"] for key, own in found.pairs.items()} == values
    assert (found.subsets["total"]["SPICE"], found.subsets["part"]["SPICE"]) == (0.25, 0.375)
    assert found.scorers["SPICE"] == spice.VERSION
    assert not [warning for warning in found.warnings if "SPICE" in warning]


@pytest.mark.usefixtures("without_java")
def test_corpora_scored_together_have_the_scores_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []

    def statistics(captions: dict, references: dict, timeout: float) -> dict[tuple, list[float]]:
        runs.append(len(captions))
        return {
            key: [float(len(text) + len(" ".join(references[key])) + n % 7) for n in range(23)]
            for key, text in captions.items()
        }

    monkeypatch.setattr(meteor, "statistics", statistics)
    captions, references = SANE
    subsets = {"change": ["1", "2"], "no_change": ["3", "6"]}
    others = {key: [*references[key], "a person left"] for key in ("6", "1", "5")}
    corpora = [
        CorpusToScore(captions, references, subsets),
        CorpusToScore(dict.fromkeys(others, "the red car is gone"), others, {"change": ["5"]}),
    ]
    together = score_each(corpora, 60, "none")
    assert len(runs) == 1
    assert together == [score(*corpus, 60, "none") for corpus in corpora]
    assert together[0].constants != together[1].constants


def test_fewer_than_two_sets_of_references_are_warned_of(everything: Scores) -> None:
    definition = "CIDEr-D is 0 by definition over fewer than 2 distinct sets of references"
    assert everything.warnings[:-1] == [f"nasty: {definition}", f"one: {definition}"]
    assert everything.warnings[-1] == f"SPICE: {everything.scorers['SPICE']}"
    assert everything.scorers["SPICE"].startswith("unavailable (stanford-corenlp-3.6.0.jar is not in $SPICE")
    assert everything.subsets["one"]["CIDEr-D"] == 0


def test_the_shape_of_the_result(everything: Scores) -> None:
    metrics = ["BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "METEOR", "ROUGE-L", "CIDEr-D"]
    of_subset = [*metrics, "CIDEr-D/corpus-df", "SPICE"]
    assert all(list(scores) == of_subset for scores in everything.subsets.values())
    of_pair = [*metrics[3:], "SPICE", "bleu", "meteor"]
    assert all(list(scores) == of_pair for scores in everything.pairs.values())
    assert next(iter(everything.subsets)) == "total"
    assert {name: said for name, said in everything.scorers.items() if name != "SPICE"} == {
        "pycocoevalcap": "1.2",
        "tokenizer": "stanford-corenlp-3.4.1 PTBTokenizer, round and curly brackets dropped",
        "METEOR": "1.5",
        "Java": java.version(10),
        "CIDEr-D document frequencies": "subset",
    }


def test_missing_and_surplus_ids_are_named() -> None:
    with pytest.raises(InputError) as caught:
        score({"1": "a", "4": "b"}, {"1": ["a"], "2": ["b"], "3": ["c"]}, {}, 10)
    for line in ("2: has no prediction", "3: has no prediction", "4: is predicted but has no references"):
        assert line in str(caught.value)


def test_an_image_whose_references_have_no_word_is_named() -> None:
    captions, references = {"a1": "x", "b2": "y", "c3": "z"}, {"a1": ["a"], "b2": ["", " . "], "c3": []}
    with pytest.raises(InputError, match=r"(?s)no reference holds a word.*b2.*c3") as caught:
        score(captions, references, {}, 60)
    assert "a1" not in str(caught.value)
