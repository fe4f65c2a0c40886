"""Answers about a pair: a caption from the asked probability on, or what is not sure."""

from types import SimpleNamespace

import numpy as np
import pytest

from pipeline.captioning.pair_captioner import UNSURE_WHAT, UNSURE_WHETHER, Limits, _answer
from pipeline.confidence.signals import NAMES, Signalled, Signals
from pipeline.decoding.attention_maps import Attended

CALIBRATION = SimpleNamespace(chances=lambda *_: np.array([0.75]), phrases=())
CHANGE, NONE = "the ball has been moved", "no change was made"


def answer(caption, exchanged, at_least):
    attended = Attended(tuple(caption.split()), np.zeros((0, 0, 1, 1), np.float16))
    signalled = Signalled(caption, exchanged, caption == CHANGE, Signals(*[0.0] * len(NAMES)))
    return _answer(CALIBRATION, attended, signalled, np.zeros(3), Limits(at_least=at_least))


@pytest.mark.parametrize(("at_least", "caption"), [(0.7499, CHANGE), (0.75, CHANGE), (0.7501, None)])
def test_a_caption_needs_at_least_the_asked_probability(at_least, caption):
    found = answer(CHANGE, CHANGE, at_least)
    assert (found.caption, found.probability) == (caption, 0.75)


@pytest.mark.parametrize(
    ("caption", "exchanged", "reason"),
    [
        (CHANGE, CHANGE, UNSURE_WHAT),
        (CHANGE, NONE, UNSURE_WHETHER),
        (NONE, CHANGE, UNSURE_WHETHER),
        (NONE, NONE, UNSURE_WHETHER),
    ],
)
def test_something_changed_only_if_the_captions_of_both_orders_say_so(caption, exchanged, reason):
    assert answer(caption, exchanged, 0.9).reason == reason
