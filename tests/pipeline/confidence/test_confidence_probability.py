"""The fitted probability against a known one, and the checks of confidence.json."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from pipeline.confidence import calibration, measures, probability
from pipeline.confidence.appearance import SIZE, Appearance
from pipeline.confidence.calibration import FILE, Calibration
from pipeline.confidence.familiarity import Fall, Familiarity
from pipeline.confidence.probability import Logistic, Probability
from pipeline.confidence.signals import NAMES
from pipeline.io.errors import InputError
from pipeline.statistics.bootstrap import area_under_roc

S = len(NAMES)
SHA = "a" * 64


def drawn(count, seed=0, shape=lambda z: z):
    """Return signals, changes, correctness, probability (a function of the first signal) and scenes."""
    random = np.random.default_rng(seed)
    signals = random.normal(size=(count, S)) * [3, *[1] * (S - 1)] + 5
    chance = expit(shape((signals[:, 0] - 5) / 2))
    changes = random.random(count) < 0.5
    return signals, changes, random.random(count) < chance, chance, [str(n // 2) for n in range(count)]


def test_a_known_probability_is_found():
    signals, changes, correct, _, scenes = drawn(8000)
    found = probability.fit(signals, changes, correct, scenes)
    fresh, changes, correct, chance, _ = drawn(4000, seed=1)
    own = found.probability(fresh, changes)
    assert np.abs(own - chance).mean() < 0.03
    assert measures.calibration_error(own, correct) < 0.04
    assert area_under_roc(own, correct) == pytest.approx(area_under_roc(chance, correct), abs=0.01)


def test_isotonic_regression_is_chosen_if_the_logit_is_not_linear():
    step = drawn(4000, shape=lambda z: np.where(z > 0.5, 3.0, -1.0) + 0 * z)
    found = probability.fit(*step[:3], step[4])
    assert found.method == "isotonic"
    assert found.losses["isotonic"] < found.losses["logistic"]
    fresh = drawn(4000, 1, lambda z: np.where(z > 0.5, 3.0, -1.0) + 0 * z)
    own = found.probability(fresh[0], fresh[1])
    assert np.abs(own - fresh[3]).mean() < 0.06
    assert 0 < own.min() <= own.max() < 1


@pytest.mark.parametrize("seed", range(3))
def test_isotonic_regression_is_not_chosen_if_the_logit_is_linear(seed):
    """It would be chosen if its steps were fitted to the captions of their own loss."""
    signals, changes, correct, _, scenes = drawn(800, seed)
    found = probability.fit(signals, changes, correct, scenes)
    assert found.method == "logistic"
    assert found.losses["logistic"] < found.losses["isotonic"]


@settings(max_examples=25, deadline=None)
@given(st.integers(10, 40), st.sampled_from(["all", "none", "constant", "changes"]))
def test_any_pairs_give_a_probability(count, kind):
    signals, changes, correct, _, _ = drawn(count)
    correct = {"all": np.ones(count, bool), "none": np.zeros(count, bool)}.get(kind, correct)
    signals = signals * 0 if kind == "constant" else signals
    changes = np.ones(count, bool) if kind == "changes" else changes
    found = probability.fit(signals, changes, correct, [str(n) for n in range(count)]).probability
    for which in (changes, ~changes):
        own = found(signals, which)
        assert ((own > 0) & (own < 1)).all()


def test_too_few_scenes_are_refused():
    signals, changes, correct, _, _ = drawn(8)
    with pytest.raises(ValueError, match="scenes"):
        probability.fit(signals, changes, correct, ["1"] * 8)


def test_a_refit_reduces_the_calibration_error_and_keeps_the_order():
    signals, changes, correct, _, scenes = drawn(2000)
    own = probability.fit(signals, changes, correct, scenes).probability
    fresh, changes, correct, _, _ = drawn(60, 3, lambda z: z - 2)  # less often correct
    refitted = probability.refit(own, fresh, changes, correct)
    fresh, changes, correct, _, _ = drawn(4000, 4, lambda z: z - 2)
    before, after = own(fresh, changes), refitted(fresh, changes)
    assert measures.calibration_error(after, correct) < measures.calibration_error(before, correct) / 2
    assert (np.argsort(before[:50]) == np.argsort(after[:50])).all()


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 19))
def test_a_held_out_probability_does_not_depend_on_labels_of_its_scene(scene):
    signals, changes, correct, _, scenes = drawn(40)  # two pairs of each scene
    own = probability.fit(signals, changes, correct, scenes).probability
    in_scene = np.array([name == str(scene) for name in scenes])
    first, other = (
        probability.held_out_refits(own, signals, changes, labels, scenes)
        for labels in (correct, correct ^ in_scene)
    )
    np.testing.assert_array_equal(first[in_scene], other[in_scene])
    assert (first != other).any()


def logistic(**changes):
    values = {"mean": [0.0] * S, "deviation": [1.0] * S, "weights": [0.5] * S, "shift": 0.0}
    return Logistic(**(values | changes))


def made(**changes):
    values = {
        "weights": SHA,
        "signals": list(NAMES),
        "meaning": "true",
        "grammar": True,
        "phrases": ["no change"],
        "beam": 1,
        "length_penalty": 0.0,
        "pairs": 100,
        "method": "logistic",
        "probability": Probability(change=logistic(), no_change=logistic()),
        "familiarity": Familiarity(
            mean=[0.0, 0.0],
            deviation=[1.0, 1.0],
            statistics=Appearance(mean=[0.0] * SIZE, deviation=[1.0] * SIZE, whitening=np.eye(SIZE).tolist()),
            unlike=2.0,
            appearance=1.5,
            scenes=0.5,
            fall=Fall(shift=1.0, slope=4.0),
        ),
    }
    return Calibration(**(values | changes))


def test_a_calibration_is_read_as_written(tmp_path):
    (tmp_path / FILE).write_text(made().model_dump_json())
    assert calibration.read(tmp_path / FILE, SHA) == made()


@given(st.lists(st.floats(0, 50), min_size=2, max_size=9))
def test_the_probability_falls_with_the_distance_of_the_appearance(appearances):
    own = made()
    rows = np.array([[0.0, value, 0.0] for value in sorted(appearances)])
    signals, reports = np.zeros((len(rows), S)), np.ones(len(rows), bool)
    chances = own.chances(signals, reports, rows)
    alone = own.probability(signals, reports)
    assert (np.diff(chances) <= 0).all()
    assert ((chances >= 0) & (chances <= alone)).all()
    np.testing.assert_array_equal(made(familiarity=None).chances(signals, reports, rows[:, :0]), alone)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda own: own.update(weights="b" * 64), "other weights"),
        (lambda own: own.update(signals=["mean"]), "signals"),
        (lambda own: own["probability"]["change"].update(weights=[1.0]), "regression"),
        (lambda own: own["probability"]["change"].update(deviation=[0.0] * S), "regression"),
        (lambda own: own["familiarity"].update(mean=[0.0]), "familiarity"),
        (lambda own: own["familiarity"].update(appearance=0.0), "appearance"),
        (lambda own: own["familiarity"]["fall"].update(slope=-1.0), "fall.slope"),
        (lambda own: own["familiarity"]["statistics"]["whitening"].pop(), "familiarity"),
        (lambda own: own["familiarity"]["statistics"]["whitening"][3].pop(), "familiarity"),
        (lambda own: own["familiarity"]["statistics"].update(deviation=[0.0] * SIZE), "familiarity"),
        (lambda own: own["familiarity"].pop("statistics"), "familiarity.statistics"),
        (lambda own: own.update(beam=0), "beam"),
        (lambda own: own.update(code="print()"), "code"),
        (lambda own: own["probability"].pop("no_change"), "probability.no_change"),
        (lambda own: own["probability"]["change"].update(shift="1e999"), "shift"),
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path, change, named):
    own = json.loads(made().model_dump_json())
    change(own)
    (tmp_path / FILE).write_text(json.dumps(own))
    with pytest.raises(InputError, match=named) as error:
        calibration.read(tmp_path / FILE, SHA)
    assert FILE in str(error.value)
    assert "\n" not in str(error.value)


@given(st.lists(st.floats(allow_nan=False), min_size=1))
def test_the_sigmoid_is_scipys(values):
    logits = np.array(values)
    np.testing.assert_allclose(probability.sigmoid(logits), expit(logits), rtol=1e-13, atol=0)
