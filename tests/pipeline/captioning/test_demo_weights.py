"""The committed weights of `make demo`: what their cards say of them is so."""

from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from pipeline.captioning import PictureCaptioner
from pipeline.captioning.answers import Limits
from pipeline.captioning.picture_captioner import Search
from pipeline.config.params import Tabletop
from pipeline.demo import drawn_scenes
from pipeline.scoring.accuracy import right, share
from pipeline.tabletop import dataset
from pipeline.tabletop.dataset import PICTURES

ROOT = Path(__file__).parents[3]
PLACES = (ROOT / "demo/clip4idc",)
PHRASES = ("no change", "no difference", "nothing", "identical", "the same as before", "remains the same")


def pairs_of(captioner, folder):
    """Test pairs of the card's sample, rendered again: id -> both image files."""
    settings = Tabletop.model_validate(captioner.scores["rendered"])
    for name in (*{Path(each).parent for each in PICTURES}, "../partial", "../scenes"):
        (folder / "dataset" / name).mkdir(parents=True, exist_ok=True)
    found = {}
    for number in sorted({int(name[:6]) for name in captioner.scores["sample"]})[:4]:
        dataset._render_scene(settings, folder, number)
        before, after, distractor = (folder / "dataset" / name.format(number) for name in PICTURES)
        found |= {f"{number:06d}.png": (before, after), f"{number:06d}.png_n": (before, distractor)}
    return found


def accuracy(captions):
    """Of pairs by id: those that end in _n did not change."""
    return share(right(said, not name.endswith("_n"), PHRASES) for name, said in captions.items())


@torch.inference_mode()
def captions(captioner, pairs):
    squashed = [tuple(map(captioner.features.squashed, pair)) for pair in pairs.values()]
    return {n: each.caption for n, each in zip(pairs, captioner.of_squashed(squashed, Search()), strict=True)}


@pytest.mark.parametrize("place", PLACES, ids=[place.name for place in PLACES])
def test_the_weights_score_as_their_card_says(place, tmp_path):
    """Word for word but for roundings of other processors, and so in accuracy; other pairs do not."""
    captioner = PictureCaptioner.load(place)
    pairs = pairs_of(captioner, tmp_path)
    told = {name: captioner.scores["sample"][name] for name in pairs}
    found = captions(captioner, pairs)
    same = sum(found[name] == told[name] for name in told) / len(told)
    assert same >= 0.75
    assert abs(accuracy(found) - accuracy(told)) <= 2 / len(told)
    others = [*found.values()][3:] + [*found.values()][:3]
    assert sum(said == other for said, other in zip(told.values(), others, strict=True)) / len(told) < 0.6
    # of the whole test split the card says what scores.json holds, and these pairs do not gainsay it
    card = (place / "README.md").read_text(encoding="utf-8")
    own = captioner.scores["own"]["change_accuracy"]
    assert f"| change accuracy | {100 * own:.1f} |" in card
    assert abs(accuracy(found) - own) <= 3 * (own * (1 - own) / len(told)) ** 0.5


def test_they_are_small():
    files = [path for place in PLACES for path in place.iterdir()]
    assert sum(path.stat().st_size for path in files) <= 12_000_000


@pytest.mark.parametrize("place", PLACES, ids=[place.name for place in PLACES])
def test_they_load_without_a_note(place, capsys):
    PictureCaptioner.load(place)
    assert capsys.readouterr().err == ""


def test_photographs_and_different_scenes_are_refused_and_the_sample_is_not():
    """Gradio's own photographs are of another kind; the sample pair is of the training's."""
    from pipeline.confidence.familiarity import OTHER_SCENE, UNLIKE

    captioner = PictureCaptioner.load(PLACES[0])
    photographs = sorted((Path(find_spec("gradio").origin).parent / "media_assets/images").glob("*.jpg"))[:4]
    assert len(photographs) >= 2
    pairs = [(photographs[0], photographs[0]), *pairwise(photographs)]
    assert {captioner.answer(*pair).reason for pair in pairs} == {UNLIKE}
    before, after = (ROOT / f"docs/sample/{name}.png" for name in ("before", "after"))
    found = captioner.answer(before, after)
    assert found.caption
    assert found.probability > 0.9
    settings = Tabletop.model_validate(captioner.scores["rendered"])
    other = drawn_scenes.draw(settings, "nothing", "clevr_change", 3).after
    assert captioner.answer(before, other).reason == OTHER_SCENE
    assert captioner.answer(before, other, Limits(any_images=True)).caption
