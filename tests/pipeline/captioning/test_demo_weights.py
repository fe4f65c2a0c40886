"""The weights of `make demo`: their captions are those of their scores.json, and they refuse other images."""

from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest

from pipeline.captioning import PairCaptioner
from pipeline.captioning.pair_captioner import Limits, Search
from pipeline.confidence.familiarity import OTHER_SCENE, UNLIKE
from pipeline.config.params import Tabletop
from pipeline.demo import drawn_scenes
from pipeline.scoring.accuracy import right, share
from pipeline.tabletop import dataset
from pipeline.tabletop.dataset import IMAGES

ROOT = Path(__file__).parents[3]
PLACE = ROOT / "demo/clip4idc"


def pairs_of(captioner, folder):
    """Render test pairs of scores.json again; return pair id -> both image files."""
    settings = Tabletop.model_validate(captioner.scores["rendered"])
    for name in (*{Path(each).parent for each in IMAGES}, "../partial", "../scenes"):
        (folder / "dataset" / name).mkdir(parents=True, exist_ok=True)
    found = {}
    for number in sorted({int(name[:6]) for name in captioner.scores["sample"]})[:4]:
        dataset._render_scene(settings, folder, number)
        before, after, distractor = (folder / "dataset" / name.format(number) for name in IMAGES)
        found |= {f"{number:06d}.png": (before, after), f"{number:06d}.png_n": (before, distractor)}
    return found


def accuracy(captions):
    """Change accuracy of captions: pair id -> caption. Unchanged pairs have ids that end in _n."""
    return share(right(said, not name.endswith("_n")) for name, said in captions.items())


def captions(captioner, pairs):
    squashed = [tuple(map(captioner.features.squashed, pair)) for pair in pairs.values()]
    return {n: each.caption for n, each in zip(pairs, captioner.of_squashed(squashed, Search()), strict=True)}


def test_captions_and_scores_are_those_of_the_card(tmp_path, capsys):
    """Another processor may round differently, so a few captions may differ."""
    captioner = PairCaptioner.load(PLACE)
    assert capsys.readouterr().err == ""
    pairs = pairs_of(captioner, tmp_path)
    sample = {name: captioner.scores["sample"][name] for name in pairs}
    found = captions(captioner, pairs)
    assert sum(found[name] == sample[name] for name in sample) / len(sample) >= 0.75
    assert abs(accuracy(found) - accuracy(sample)) <= 2 / len(sample)
    others = [*found.values()][3:] + [*found.values()][:3]
    assert sum(map(str.__eq__, sample.values(), others)) / len(sample) < 0.6  # captions differ between pairs
    own = captioner.scores["own"]["change_accuracy"]
    assert f"| change accuracy | {100 * own:.1f} |" in (PLACE / "README.md").read_text(encoding="utf-8")
    assert sum(path.stat().st_size for path in PLACE.iterdir()) <= 12_000_000


@pytest.mark.parametrize("least", [90, -0.1, float("nan")])
def test_a_minimum_that_is_no_probability_is_refused(least):
    with pytest.raises(ValueError, match="at_least"):
        Limits(at_least=least)


def test_photographs_and_different_scenes_are_refused_and_the_sample_is_not():
    captioner = PairCaptioner.load(PLACE)
    photographs = sorted((Path(find_spec("gradio").origin).parent / "media_assets/images").glob("*.jpg"))[:4]
    assert len(photographs) >= 2
    pairs = [(photographs[0], photographs[0]), *pairwise(photographs)]
    assert {captioner.answer(*pair).reason for pair in pairs} == {UNLIKE}
    before, after = (ROOT / f"docs/sample/{name}.png" for name in ("before", "after"))
    found = captioner.answer(before, after)
    assert found.caption == "the large brown matte ball turned blue"
    assert found.probability > 0.9
    settings = Tabletop.model_validate(captioner.scores["rendered"])
    other = drawn_scenes.draw(settings, "nothing", "clevr_change", 3).after
    assert captioner.answer(before, other).reason == OTHER_SCENE
    assert captioner.answer(before, other, Limits(any_images=True)).caption
