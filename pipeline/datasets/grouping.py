"""Scenes of datasets that do not name any: pairs of one split that share an image, directly or not."""

from dataclasses import replace

from pipeline.datasets.schema import Pair


def by_images(pairs: list[Pair]) -> list[Pair]:
    """The pairs, in order; scene_id is the id of the scene's first pair."""
    parent: dict[tuple[str, str], tuple[str, str]] = {}

    def root_of(image: tuple[str, str]) -> tuple[str, str]:
        path = []
        while parent.setdefault(image, image) != image:
            path.append(image)
            image = parent[image]
        parent.update(dict.fromkeys(path, image))
        return image

    for pair in pairs:
        parent[root_of((pair.split, pair.after))] = root_of((pair.split, pair.before))
    first: dict[tuple[str, str], str] = {}
    return [
        replace(pair, scene_id=first.setdefault(root_of((pair.split, pair.before)), pair.pair_id))
        for pair in pairs
    ]
