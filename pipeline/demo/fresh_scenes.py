"""How often a model is true of scenes that no training saw: drawn on demand, captioned and judged."""

from collections.abc import Iterator, Sequence

import numpy as np

from pipeline.captioning.captioner import Captioner, Search
from pipeline.datasets.schema import Pair
from pipeline.demo.new_scene import KINDS, NOTHING, Drawn, draw
from pipeline.params import Tabletop
from pipeline.progress import track
from pipeline.scoring.truth import Verdict, judge

BATCH = 20  # pairs captioned at once
Judged = tuple[str, Pair, str, Verdict]  # kind of change, the pair, the caption, whether it is true


def judged(captioner: Captioner, settings: Tabletop, scenes: int, search: Search) -> list[Judged]:
    """Captions of `scenes` pairs of each kind of change and of as many without any, judged.

    The scenes are those of `settings.seed`, which must be another than the training's. Raises InputError
    where the settings leave no room for a scene.
    """
    wanted = [(kind, number) for number in range(scenes) for kind in KINDS]
    found: list[Judged] = []
    for start in track(range(0, len(wanted), BATCH), "captioning", "batches", -(-len(wanted) // BATCH)):
        some = wanted[start : start + BATCH]
        drawn = [draw(settings, kind, settings.viewpoint, number) for kind, number in some]
        found += _told([kind for kind, _ in some], drawn, captioner, search)
    return found


def _told(
    kinds: Sequence[str], drawn: Sequence[Drawn], captioner: Captioner, search: Search
) -> Iterator[Judged]:
    pictures = [(_squashed(captioner, each.before), _squashed(captioner, each.after)) for each in drawn]
    captions = captioner.of_squashed(pictures, search)
    for kind, each, told in zip(kinds, drawn, captions, strict=True):
        assert each.pair is not None  # it was drawn here
        verdict = judge(told.caption, each.pair)
        assert verdict is not None
        yield kind, each.pair, told.caption, verdict


def _squashed(captioner: Captioner, data: bytes) -> np.ndarray:
    return captioner.features.squashed(data, "the drawn picture")


def shares(found: Sequence[Judged]) -> dict[str, float]:
    """The share of true captions: of all changes, of each kind of them, and of the pairs without a change."""
    kinds = {kind: [verdict.true for own, _, _, verdict in found if own == kind] for kind in KINDS}
    changes = [true for kind, values in kinds.items() if kind != NOTHING for true in values]
    return {name: sum(values) / len(values) for name, values in {"changes": changes, **kinds}.items()}
