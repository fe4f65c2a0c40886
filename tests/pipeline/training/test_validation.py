"""What a captioning's validation measures, what chooses its snapshot, and what that needs."""

import math
from dataclasses import replace

import numpy as np
import pytest

from pipeline.config import resolving
from pipeline.config.params import load
from pipeline.config.recipe_file import Recipe
from pipeline.datasets.schema import NO_CHANGE, of_split
from pipeline.io.errors import InputError
from pipeline.scoring.metrics import cider_d, rouge_l
from pipeline.scoring.tokenizer import plain
from pipeline.training import phases, validation
from pipeline.training.loop import Training, seed_all
from pipeline.training.validation import Validation
from tests import project_params
from tests.tabletop_pairs import draw_pairs

SIZES = {"width": 8, "heads": 2, "layers": 1, "decoder_layers": 1, "word_width": 6}
TRAIN = {"iterations": 6, "batch": 2, "references": 1, "learning_rate": 1e-2, "schedule": "constant"}
TRAIN |= {"validate_every": 2, "exchange": True, "precision": "float32"}
PAIRS = of_split(draw_pairs(seed=4, count=40), "val")


def recipe(**changes):
    settings = {"variant": "paper", "switches": {}, "dropout": 0.1}
    return Recipe("tabletop", "subtraction", settings, SIZES, {}, TRAIN | changes, {}, {})


@pytest.fixture
def said(monkeypatch):
    """Caption of each pair, as a model would say it: true of each but the first of both kinds."""
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


def test_truth_is_measured_where_scenes_are_known(said):
    changes = sum(pair.changed for pair in PAIRS)
    found = scores(PAIRS)
    assert list(found) == ["CIDEr-D", "true", "true/change", "true/both"]
    assert found["true"] == 1 - 2 / len(PAIRS)
    assert found["true/change"] == 1 - 1 / changes
    others = 1 - 1 / (len(PAIRS) - changes)
    assert found["true/both"] == pytest.approx(math.sqrt(found["true/change"] * others))
    bare = [replace(pair, scene=None) for pair in PAIRS]
    assert scores(bare) == {"CIDEr-D": found["CIDEr-D"]}
    assert scores([bare[0], *PAIRS[1:]]).keys() == {"CIDEr-D"}  # of all, or not at all
    for kind in (False, True):  # of one kind alone it is that kind's
        found = scores([pair for pair in PAIRS if pair.changed == kind])
        assert ("true/change" in found) == kind
        assert 0 < found["true/both"] == found["true"] < 1


def test_what_is_selected_by_is_measured(said):
    references = {pair.pair_id: list(pair.captions) for pair in PAIRS}
    changes = [pair.pair_id for pair in PAIRS if pair.changed]
    own = ({key: table[key] for key in changes} for table in (said, references))
    found = scores(PAIRS, select="CIDEr-D/change")
    assert list(found) == ["CIDEr-D", "CIDEr-D/change", "true", "true/change", "true/both"]
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
def test_what_the_pairs_have_not_cannot_select(select, change, lacking):
    message = rf"^train\.select: {select} needs {lacking}, .*; set it to CIDEr-D$"
    with pytest.raises(InputError, match=message):
        Validation([replace(pair, **change) for pair in PAIRS], None, None, plain, select=select)


# of three validations another one is the best by each score
COLUMNS = ("CIDEr-D", "CIDEr-D/change", "ROUGE-L", "true", "true/change", "true/both")
TABLE = [(3.0, 0.1, 0.1, 0.8, 0.0, 0.0), (2.0, 0.3, 0.2, 0.5, 0.5, 0.6), (1.0, 0.2, 0.3, 0.5, 0.9, 0.6)]
SCORES = [dict(zip(COLUMNS, row, strict=True)) for row in TABLE]


@pytest.mark.parametrize(
    ("select", "iteration", "score"),
    [
        (None, 2, 3.0),
        ("CIDEr-D", 2, 3.0),
        ("truth", 4, 0.6),  # of equal ones the earlier
        ("CIDEr-D/change", 4, 0.3),
        ("ROUGE-L", 6, 0.3),
        ("last", 6, 1.0),
    ],
)
def test_the_snapshot_is_the_best_by_what_is_selected(prepared, tmp_path, select, iteration, score):
    chosen = recipe(**({} if select is None else {"select": select}))
    phase = phases.captioning(chosen, None, "plain")
    seed_all(1, 0)
    given = iter(SCORES)
    model = phase.make(prepared.store.shape, prepared.vocabulary)
    training = Training(model, chosen, 1, tmp_path / "state.pt", lambda _: next(given), phase=phase)
    history = training.run(phase.sampler(prepared.pairs, 1), prepared.store, prepared.vocabulary)
    assert (history.best_iteration, history.best_score) == (iteration, score)
    assert [row["true"] for row in history.validation] == [0.8, 0.5, 0.5]


def test_rendered_datasets_select_by_truth_and_all_others_as_their_papers_do():
    """But the extreme camera: there a model that says "no change" of every pair is the best for long."""
    settings = project_params.settings()
    for name in settings.dataset:
        rendered = name in settings.tabletop.viewpoint
        wanted = "last" if name == "tabletop_extreme" else "truth" if rendered else "CIDEr-D"
        assert settings.of(name).train.select == wanted
        assert (
            resolving.resolve(settings, name, "scorer_cbr").train["select"] == settings.of(name).train.select
        )
        for key, own in settings.of(name).own.items():
            if rendered:
                assert own.train.select == ("last" if key == "idc_pcl" else wanted)
            else:
                assert own.train.select != "truth"


def test_an_unknown_score_is_refused(tmp_path):
    project_params.write(tmp_path, train__select="BLEU-4")
    with pytest.raises(InputError, match=r"train\.select: .*'truth', 'CIDEr-D'.*not 'BLEU-4'"):
        load(tmp_path / "params.yaml")
