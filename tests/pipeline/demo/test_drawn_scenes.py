"""Judged captions of newly rendered scenes."""

from types import SimpleNamespace

import pytest

from pipeline.captioning import judging
from pipeline.captioning.pair_captioner import Search
from pipeline.config.params import Tabletop
from pipeline.demo import drawn_scenes
from pipeline.demo.drawn_scenes import KINDS, draw

SETTINGS = Tabletop(
    scenes=20, seed=9, min_objects=3, max_objects=4, width=96, height=64, viewpoint="moderate"
)
SCENES = 5  # of each kind: 30 pairs, more than a batch


class Saying:
    """Fake captioner that returns given captions in order."""

    features = SimpleNamespace(squashed=lambda data: data)

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


def test_captions_of_new_scenes_are_judged_by_kind_of_change():
    said = truth()
    said[0] = said[len(KINDS)] = "there is no change"  # two pairs of the first kind
    found = drawn_scenes.judge_new_scenes(Saying(said), SETTINGS, SCENES, Search())
    shares = {line[:24].strip(): float(line[30:36]) for line in judging.summary(found)[1:]}
    assert shares.pop("all changes") == pytest.approx(100 * (1 - 2 / (5 * SCENES)), abs=0.05)
    assert shares.pop(KINDS[0]) == pytest.approx(100 * (1 - 2 / SCENES), abs=0.05)
    assert set(shares.values()) == {100.0}


def test_kept_images_serve_settings_for_any_number_of_scenes_but_no_other_seed(tmp_path):
    first = draw(SETTINGS, "color", "moderate", 0, tmp_path)
    again = draw(SETTINGS.model_copy(update={"scenes": 7}), "color", "moderate", 0, tmp_path)
    assert (again.before, again.after) == (first.before, first.after)
    assert len([*tmp_path.iterdir()]) == 1
    draw(SETTINGS.model_copy(update={"seed": SETTINGS.seed + 1}), "color", "moderate", 0, tmp_path)
    assert len([*tmp_path.iterdir()]) == 2
