"""Scenes of training pairs: the items that a training batch draws."""

from collections.abc import Sequence
from dataclasses import replace

from pipeline.datasets.schema import NO_CHANGE, Pair

Scene = tuple[Pair, ...]


def scenes_of(pairs: Sequence[Pair]) -> list[Scene]:
    """Group pairs by scene, or each pair by itself if scenes have different numbers of pairs."""
    scenes = _by_id(pairs)
    if len({len(scene) for scene in scenes.values()}) == 1:
        return [tuple(scene) for scene in scenes.values()]
    return [(pair,) for pair in pairs]


def uneven(pairs: Sequence[Pair]) -> str | None:
    """Return a note for the user if `scenes_of` does not group the pairs; None if it does."""
    counts = {scene_id: len(scene) for scene_id, scene in _by_id(pairs).items()}
    fewest, most = (choose(counts, key=counts.__getitem__) for choose in (min, max))
    if counts[fewest] == counts[most]:
        return None
    return (
        f"the scene {fewest!r} has {counts[fewest]} training pair(s), the scene {most!r} has {counts[most]}: "
        "so each pair is drawn on its own, and train.batch counts pairs; for batches of whole scenes, give "
        "every scene the same number of pairs"
    )


def _by_id(pairs: Sequence[Pair]) -> dict[str, list[Pair]]:
    scenes: dict[str, list[Pair]] = {}
    for pair in pairs:
        scenes.setdefault(pair.scene_id, []).append(pair)
    return scenes


def sentences_of(pairs: Sequence[Pair]) -> list[Scene]:
    """Return CLIP4IDC's training scenes: each a changed pair with one of its captions."""
    return [
        (replace(pair, captions=(caption,)),)
        for pair in pairs
        if pair.change_type != NO_CHANGE
        for caption in pair.captions
    ]


def exchange(scene: Scene) -> Scene:
    """Exchange the default and the distractor image, those of the unchanged pair, in a scene's pairs."""
    for pair in scene:
        if pair.change_type == NO_CHANGE:
            return tuple(_exchanged(other, pair) for other in scene)
    return scene


def _exchanged(pair: Pair, unchanged: Pair) -> Pair:
    """Exchange the images of `unchanged`, (a, b): (a, c) becomes (b, c), and (a, b) becomes (b, a).

    The cameras in the pair's scene change too, so that each image keeps its own camera.
    """
    swap = {unchanged.before: unchanged.after, unchanged.after: unchanged.before}
    swapped = replace(pair, before=swap.get(pair.before, pair.before), after=swap.get(pair.after, pair.after))
    if pair.scene is None or unchanged.scene is None:
        return swapped
    camera = {
        pair.before: pair.scene.before_camera,
        pair.after: pair.scene.after_camera,
        unchanged.before: unchanged.scene.before_camera,
        unchanged.after: unchanged.scene.after_camera,
    }
    before, after = camera[swapped.before], camera[swapped.after]
    return replace(swapped, scene=replace(pair.scene, before_camera=before, after_camera=after))
