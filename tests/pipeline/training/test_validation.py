"""Validation of captioning: its scores, and the score that chooses the snapshot."""

import math
from dataclasses import replace

import numpy as np
import pytest

from pipeline.config.recipe_file import Recipe
from pipeline.datasets.schema import NO_CHANGE, of_split
from pipeline.io.errors import InputError
from pipeline.scoring.metrics import cider_d, rouge_l
from pipeline.scoring.tokenizer import plain
from pipeline.training import phases, validation
from pipeline.training.validation import RetrievalValidation, Validation
from tests.killed import train
from tests.tabletop_pairs import draw_pairs

SIZES = {"width": 8, "heads": 2, "layers": 1, "decoder_layers": 1, "word_width": 6}
TRAIN = {"iterations": 6, "batch": 2, "references": 1, "learning_rate": 1e-2, "schedule": "constant"}
TRAIN |= {"validate_every": 2, "exchange": True, "precision": "float32"}
PAIRS = of_split(draw_pairs(seed=4, count=40), "val")


def recipe(**changes):
    settings = {"variant": "paper", "switches": {}, "dropout": 0.1}
    return Recipe("tabletop", "subtraction", settings, SIZES, {}, {"train": TRAIN | changes}, {}, {})


@pytest.fixture
def said(monkeypatch):
    """Captions of all pairs; only those of the first changed and the first unchanged pair are false."""
    first = {pair.change_type == NO_CHANGE: pair.pair_id for pair in reversed(PAIRS)}
    found = {
        pair.pair_id: "the cube spins" if pair.pair_id in first.values() else pair.captions[0]
        for pair in PAIRS
    }
    monkeypatch.setattr(
        validation, "captions", lambda model, pairs, *_: {p.pair_id: found[p.pair_id] for p in pairs}
    )
    return found


def scores(pairs, **select):
    return Validation(pairs, None, None, plain, **select)(None)


def test_truth_needs_the_scenes_of_all_pairs(said):
    changes = sum(pair.changed for pair in PAIRS)
    found = scores(PAIRS)
    assert list(found) == ["CIDEr-D", "distinct", "true", "true/changed", "true/both"]
    assert found["true"] == 1 - 2 / len(PAIRS)
    assert found["true/changed"] == 1 - 1 / changes
    others = 1 - 1 / (len(PAIRS) - changes)
    assert found["true/both"] == pytest.approx(math.sqrt(found["true/changed"] * others))
    bare = [replace(pair, scene=None) for pair in PAIRS]
    assert scores(bare) == {name: found[name] for name in ("CIDEr-D", "distinct")}
    assert scores([bare[0], *PAIRS[1:]]).keys() == {"CIDEr-D", "distinct"}
    for kind in (False, True):  # only unchanged pairs, or only changed pairs
        found = scores([pair for pair in PAIRS if pair.changed == kind])
        assert ("true/changed" in found) == kind
        assert 0 < found["true/both"] == found["true"] < 1


def test_the_selected_score_is_computed(said):
    references = {pair.pair_id: list(pair.captions) for pair in PAIRS}
    changes = [pair.pair_id for pair in PAIRS if pair.changed]
    own = ({key: table[key] for key in changes} for table in (said, references))
    found = scores(PAIRS, select="CIDEr-D/change")
    assert list(found) == ["CIDEr-D", "distinct", "CIDEr-D/change", "true", "true/changed", "true/both"]
    assert found["CIDEr-D/change"] == cider_d(*own)
    assert found["CIDEr-D/change"] != found["CIDEr-D"] == cider_d(said, references)
    assert scores(PAIRS, select="ROUGE-L")["ROUGE-L"] == np.mean(rouge_l(said, references))
    assert scores(PAIRS, select="truth") == scores(PAIRS) == scores(PAIRS, select="last")


@pytest.mark.parametrize(
    ("select", "change", "lacking"),
    [
        ("truth", {"scene": None}, "scenes"),
        ("CIDEr-D/change", {"change_type": NO_CHANGE}, "a pair with a change"),
        ("CIDEr-D/change", {"change_type": None}, "a pair with a change"),
    ],
)
def test_a_score_that_the_pairs_do_not_allow_is_refused(select, change, lacking):
    with pytest.raises(InputError, match=rf"train\.select: {select} needs {lacking}"):
        Validation([replace(pair, **change) for pair in PAIRS], None, None, plain, select=select)


CHANGED = [pair for pair in PAIRS if pair.changed]
SAME = [replace(pair, captions=("the cube moved", "it moved")) for pair in PAIRS]
TWICE = [replace(pair, captions=("it moved", "the cube moved", "it moved")) for pair in SAME[:1]]


@pytest.mark.parametrize(
    ("pairs", "select", "constant"),
    [
        (PAIRS, "CIDEr-D", False),
        (PAIRS[:1], "CIDEr-D", True),
        (SAME, "CIDEr-D", True),
        ([*SAME[1:], *TWICE], "CIDEr-D", True),  # the same n-grams
        ([*PAIRS[:1], *SAME[1:2]], "CIDEr-D", False),
        ([CHANGED[0], *(pair for pair in PAIRS if not pair.changed)], "CIDEr-D/change", True),
        (PAIRS, "CIDEr-D/change", False),
        (PAIRS[:1], "ROUGE-L", False),
        (PAIRS[:1], "truth", False),
        (PAIRS[:1], "last", False),
    ],
)
def test_a_score_that_is_0_by_definition_selects_nothing(said, pairs, select, constant):
    own = Validation(pairs, None, None, plain, select=select)
    assert (own.constant is not None) == constant
    if constant:
        assert own(None)[select] == 0
        assert select in own.constant
    phase = phases.phase_of(recipe(select=select))
    assert phase.selecting_by(own).keep == ("last" if constant or select == "last" else "earlier")


def test_without_a_score_the_last_snapshot_is_kept_and_patience_waits(prepared, tmp_path):
    chosen = recipe(patience=1)
    phase = phases.phase_of(chosen, phases.PhaseInputs(tokens="plain"))
    history, _ = train(prepared, tmp_path / "a", chosen, phase)
    assert (history.iteration, history.best_iteration) == (4, 2)
    constant = phase.selecting_by(Validation(PAIRS[:1], None, None, plain))
    history, _ = train(prepared, tmp_path / "b", chosen, constant)
    assert (history.iteration, history.best_iteration) == (6, 6)


@pytest.mark.parametrize(("count", "constant"), [(1, True), (2, False)])
def test_the_rank_of_a_single_pair_selects_nothing(count, constant):
    assert (RetrievalValidation(CHANGED[:count], None, None).constant is not None) == constant


def test_a_loss_that_is_nan_in_a_validation_batch_is_shown():
    assert math.isnan(validation.mean([1.0, math.nan], skip_nan=False))
    assert validation.mean([1.0, math.nan], skip_nan=True) == 1.0
    assert math.isnan(validation.mean([], skip_nan=False))


# scores of three validations, of which each may be the best
COLUMNS = ("CIDEr-D", "CIDEr-D/change", "ROUGE-L", "true", "true/changed", "true/both")
TABLE = [(3.0, 0.1, 0.1, 0.8, 0.0, 0.0), (2.0, 0.3, 0.2, 0.5, 0.5, 0.6), (1.0, 0.2, 0.3, 0.5, 0.9, 0.6)]
SCORES = [dict(zip(COLUMNS, row, strict=True)) for row in TABLE]


@pytest.mark.parametrize(
    ("select", "iteration", "score"),
    [
        (None, 2, 3.0),
        ("CIDEr-D", 2, 3.0),
        ("truth", 4, 0.6),  # the earlier of equal scores
        ("CIDEr-D/change", 4, 0.3),
        ("ROUGE-L", 6, 0.3),
        ("last", 6, 1.0),
    ],
)
def test_the_snapshot_is_the_best_by_the_selected_score(prepared, tmp_path, select, iteration, score):
    chosen = recipe(**({} if select is None else {"select": select}))
    history, _ = train(prepared, tmp_path, chosen, scores=SCORES)
    assert (history.best_iteration, history.best_score) == (iteration, score)
    assert [row["true"] for row in history.validation] == [0.8, 0.5, 0.5]
