"""Shares of true captions on newly rendered scenes."""

from types import SimpleNamespace

import pytest

from pipeline.captioning.picture_captioner import Search
from pipeline.config.params import Tabletop
from pipeline.demo import drawn_scenes
from pipeline.demo.drawn_scenes import KINDS, NOTHING, draw

SETTINGS = Tabletop(
    scenes=20, seed=9, min_objects=3, max_objects=4, width=96, height=64, viewpoint="moderate"
)
SCENES = 5  # of each kind: 30 pairs, more than a batch


class Saying:
    """Fake captioner that returns given captions in order."""

    features = SimpleNamespace(squashed=lambda data, name: data)

    def __init__(self, sentences):
        self.sentences = iter(sentences)

    def of_squashed(self, pairs, search):
        return [SimpleNamespace(caption=next(self.sentences)) for _ in pairs]


def truth():
    """Return a true caption of each pair."""
    return [
        draw(SETTINGS, kind, "moderate", number).pair.captions[0]
        for number in range(SCENES)
        for kind in KINDS
    ]


def judged(sentences):
    return drawn_scenes.judge_new_scenes(Saying(sentences), SETTINGS, SCENES, Search())


def test_true_captions_give_shares_of_1():
    assert set(drawn_scenes.shares(judged(truth())).values()) == {1.0}


def test_captions_of_no_change_are_true_only_of_unchanged_pairs():
    shares = drawn_scenes.shares(judged(["there is no change"] * SCENES * len(KINDS)))
    assert shares.pop(NOTHING) == 1.0
    assert set(shares.values()) == {0.0}


def test_wrong_captions_lower_the_share_of_their_kind_and_of_all_changes():
    said = truth()
    for number in range(2):
        said[number * len(KINDS)] = "there is no change"  # the first kind's
    shares = drawn_scenes.shares(judged(said))
    assert shares[KINDS[0]] == pytest.approx(1 - 2 / SCENES)
    assert shares["changes"] == pytest.approx(1 - 2 / (SCENES * 5))
