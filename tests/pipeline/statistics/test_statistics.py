"""The bootstrap from sums, against a bootstrap that scores every resampled corpus; reading of pairs.jsonl."""

import math
from pathlib import Path
from statistics import stdev

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycocoevalcap.bleu.bleu_scorer import BleuScorer, cook_refs, cook_test
from pycocoevalcap.cider.cider_scorer import CiderScorer
from pycocoevalcap.rouge.rouge import Rouge
from scipy.stats import rankdata

from pipeline.io.errors import InputError
from pipeline.scoring import meteor
from pipeline.statistics import bootstrap, comparisons, pair_scores
from pipeline.statistics.evidence import Evidence
from tests import light_meteor
from tests.hostile import refused
from tests.scored import line, write

WORDS = ["the", "a", "red", "cube", "cubes", "ball", "automobile", "car", "is", "running", "run", "big"]
PAIRS, RESAMPLES = 14, 25
PERFECT, EMPTY = 0, 1  # pairs whose captions are these


def sentences(random: np.random.Generator, count: int) -> list[str]:
    return [" ".join(random.choice(WORDS, random.integers(2, 9))) for _ in range(count)]


class Corpus:
    """Tokenised captions and references of a run, with the library's scores of each pair."""

    def __init__(self, captions: list[str], references: list[list[str]], lines: list[str]):
        self.captions, self.references, self.lines = captions, references, lines
        scorer = CiderScorer()
        for caption, own in zip(captions, references, strict=True):
            scorer += (caption, own)
        self.cider_each = [float(value) for value in scorer.compute_score()[1]]
        self.frequencies = scorer.document_frequency
        self.rouge = [
            round(float(Rouge().calc_score([c], r)), 6) for c, r in zip(captions, references, strict=True)
        ]

    def write(self, path: Path, spice: bool = False) -> Path:
        rows = []
        for n, (caption, own) in enumerate(zip(self.captions, self.references, strict=True)):
            cooked = cook_test(caption, cook_refs(own))
            closest = BleuScorer()._single_reflen(cooked["reflen"], "closest", cooked["testlen"])
            rows.append(
                line(n)
                | {
                    "ROUGE-L": self.rouge[n],
                    "CIDEr-D": round(self.cider_each[n], 6),
                    "SPICE": 0.5 if spice else None,
                    "right": None if n == 2 else n % 3 > 0,
                    "bleu": {
                        "matches": cooked["correct"],
                        "guesses": cooked["guess"],
                        "length": cooked["testlen"],
                        "reference_length": closest,
                    },
                    "meteor": self.lines[n],
                }
            )
        return write(path, rows)

    def rescored(self, drawn: np.ndarray) -> dict[str, float]:
        """The library's scores of the corpus of these pairs, except METEOR."""
        bleu, cider = BleuScorer(), CiderScorer()
        for n in drawn:
            bleu += (self.captions[n], self.references[n])
            cider += (self.captions[n], self.references[n])
        cider.document_frequency = self.frequencies
        cider.ref_len = np.log(float(len(drawn)))
        known = [n % 3 > 0 for n in drawn if n != 2]
        return {
            "BLEU-4": bleu.compute_score("closest")[0][3],
            "ROUGE-L": np.mean([self.rouge[n] for n in drawn]),
            "CIDEr-D": np.mean(cider.compute_cider()),
            "change_accuracy": np.mean(known),
        }


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Four runs (two models, two seeds), with METEOR of each resample by the jar's command EVAL."""
    random = np.random.default_rng(3)
    references = [sentences(random, 3) for _ in range(PAIRS)]
    runs = [[*sentences(random, PAIRS)] for _ in range(4)]
    for run in runs:
        run[PERFECT], run[EMPTY] = references[PERFECT][1], ""
        run[5] = references[5][0] + " red"
    counts = np.concatenate([*bootstrap.draws(PAIRS, RESAMPLES, 1)])
    drawn = [np.repeat(np.arange(PAIRS), row.astype(int)) for row in counts]
    found = []
    folder = tmp_path_factory.mktemp("meteor")
    for run in runs:
        asked = [meteor.question(*each) for each in zip(run, references, strict=True)]
        lines = [meteor.parsed(" ".join(map(str, own))) for own in light_meteor.answers(folder, asked)]
        sums = [np.array(lines)[own].sum(0).tolist() for own in (*drawn, np.arange(PAIRS))]
        line = " ||| ".join(["EVAL", *(" ".join(map(str, own)) for own in sums)])
        scores = [score for (score,) in light_meteor.answers(folder, [line])[:-1]]  # the last: all together
        found.append((Corpus(run, references, lines), scores))
    return found, drawn


def read(found, folder: Path, runs: tuple[int, ...], spice: bool = False) -> Evidence:
    return pair_scores.read([found[n][0].write(folder / f"{n}.jsonl", spice) for n in runs])


@pytest.mark.slow
def test_each_resample_has_the_librarys_scores(world, tmp_path):
    found, drawn = world
    model = read(found, tmp_path, (0, 1))
    (own,) = bootstrap.resampled([model], RESAMPLES, 1)
    assert set(own) == {"BLEU-4", "METEOR", "ROUGE-L", "CIDEr-D", "change_accuracy"}
    for place, pairs in enumerate(drawn):
        rescored = [found[n][0].rescored(pairs) | {"METEOR": found[n][1][place]} for n in (0, 1)]
        for metric, scores in own.items():
            expected = (rescored[0][metric] + rescored[1][metric]) / 2
            assert scores[place] == pytest.approx(expected, rel=1e-9, abs=1e-6), metric


def test_a_comparison_is_of_the_same_resamples_for_both(world, tmp_path):
    found, drawn = world
    compared = comparisons.compare(
        read(found, tmp_path, (0, 1)), read(found, tmp_path, (2, 3)), resamples=RESAMPLES, seed=1
    )
    everything = [
        [found[n][0].rescored(pairs) | {"METEOR": found[n][1][place]} for n in range(4)]
        for place, pairs in enumerate([*drawn, np.arange(PAIRS)])
    ]
    for metric, own in compared.items():
        *rows, whole = [
            np.mean([run[metric] for run in row[:2]]) - np.mean([run[metric] for run in row[2:]])
            for row in everything
        ]
        assert own.difference == pytest.approx(whole, abs=1e-6), metric
        assert (own.low, own.high) == pytest.approx(tuple(np.quantile(rows, [0.025, 0.975])), abs=1e-6)
        less, more = sum(round(d, 9) <= 0 for d in rows), sum(round(d, 9) >= 0 for d in rows)
        assert own.p == pytest.approx(min(1, 2 * (min(less, more) + 1) / (RESAMPLES + 1)))


def test_a_model_is_never_significant_from_itself(world, tmp_path):
    found, _ = world
    model = read(found, tmp_path, (0, 1), spice=True)
    for own in comparisons.compare(model, model, 300).values():
        assert (own.difference, own.low, own.high, own.p, own.significant) == (0, 0, 0, 1, False)
        assert ", not significant (95 % interval" in own.sentence("a", "b")


def test_a_metric_that_a_seed_lacks_is_left_out(world, tmp_path):
    found, _ = world
    a, b = read(found, tmp_path, (0,), spice=True), read(found, tmp_path, (1,))
    assert "SPICE" in a.numbers
    assert "SPICE" not in comparisons.compare(a, b, 10)
    mixed = pair_scores.read([tmp_path / "0.jsonl", tmp_path / "1.jsonl"])
    assert "SPICE" not in mixed.numbers
    assert mixed.seeds == 2


def test_a_value_that_hardly_any_resample_has(tmp_path):
    model = pair_scores.read(
        [write(tmp_path / "a", [line(n) | {"right": True if n == 0 else None} for n in range(500)])]
    )
    assert model.counted("change_accuracy") == 1
    with pytest.raises(InputError, match=r"no resample .* change_accuracy; take more than 1$"):
        comparisons.compare(model, model, 1, seed=1)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=6))
def test_over_seeds(values):
    found = bootstrap.over_seeds(values)
    assert found.mean == pytest.approx(np.mean(values))
    assert found.sd == pytest.approx(stdev(values))
    assert found.runs == len(values)
    assert bootstrap.over_seeds(values[:1]) == bootstrap.MeanSd(values[0], None, 1)
    with pytest.raises(InputError, match="no run to average"):
        bootstrap.over_seeds([])


def without(key: str) -> dict:
    return {name: value for name, value in line(1).items() if name != key}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "remove it"),
        (["captions"], "line 1: "),
        ([line(0), without("meteor")], "line 2: the key meteor is missing"),
        ([line(0) | {"meteor": [1.0] * 22}], "line 1: meteor: List should have at least 23"),
        ([line(0) | {"ROUGE-L": None}], "line 1: means.ROUGE-L: "),
        ([line(0) | {"true": "yes"}], "line 1: true: "),
        ([line(0) | {"CIDEr-D": float("nan")}], "line 1: "),
        ([line(0), line(1), line(0)], "line 3: the pair_id '0.png' is in an earlier line"),
    ],
)
def test_a_file_that_is_something_else(tmp_path, rows, said):
    path = write(tmp_path / "pairs.jsonl", rows)
    found = refused(lambda: pair_scores.read([path]))
    assert said in found
    assert str(path) in found


def test_a_missing_file(tmp_path):
    with pytest.raises(InputError, match=r"pairs\.jsonl is missing; run `dvc repro score`"):
        pair_scores.read([tmp_path / "pairs.jsonl"])


def test_other_pairs_are_not_compared(tmp_path):
    two = write(tmp_path / "two", [line(0), line(1)])
    three = write(tmp_path / "three", [line(0), line(1), line(2)])
    with pytest.raises(InputError, match=r"two and .*three are not of the same pairs: .*'2\.png'"):
        pair_scores.read([two, three])
    with pytest.raises(InputError, match=r"a and b are not of the same pairs: .*'2\.png'"):
        comparisons.compare(pair_scores.read([two]), pair_scores.read([three]), 10)


def test_pairs_in_another_order_are_the_same_pairs(tmp_path):
    rows = [line(n) | {"CIDEr-D": n / 10} for n in range(6)]
    a, b = (pair_scores.read([write(tmp_path / name, own)]) for name, own in (("a", rows), ("b", rows[::-1])))
    own = comparisons.compare(a, b, 200)["CIDEr-D"]
    assert (own.difference, own.low, own.high) == (0, 0, 0)
    mixed = pair_scores.read([tmp_path / "a", tmp_path / "b"])
    assert (mixed.numbers["CIDEr-D"][0] == mixed.numbers["CIDEr-D"][1]).all()


@given(st.lists(st.sampled_from([-2.5, -0.0, 0.0, 1e-300, 3.0, math.inf]), min_size=1))
def test_ranks_are_scipys(values):
    assert bootstrap.ranks(np.array(values)).tolist() == rankdata(values).tolist()
