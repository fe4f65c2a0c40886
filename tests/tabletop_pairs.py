"""Pairs of tabletop with scenes, labels and captions, without images."""

from dataclasses import replace

from pipeline.config.params import Tabletop
from pipeline.datasets.schema import ChangedObject, Look, Pair
from pipeline.tabletop import grammar, scene_sampling

SETTINGS = Tabletop(
    scenes=10, seed=0, min_objects=3, max_objects=6, width=96, height=64, viewpoint="moderate"
)
KINDS = {"material": "texture"}


def pairs_of(number, seed):
    rng = scene_sampling.generator(seed, number)
    scene = scene_sampling.sample(SETTINGS, number, rng)
    before, after = (
        next((Look(*item.look) for item in objects if item.number == scene.changed), None)
        for objects in (scene.before, scene.after)
    )
    pair = Pair(
        pair_id=f"{number}.png",
        scene_id=str(number),
        split="val" if number % 4 == 3 else "train",
        before="a",
        after="b",
        captions=tuple(grammar.change_captions(scene, rng)),
        change_type=KINDS.get(scene.change_type, scene.change_type),
        changed_object=ChangedObject(before, after),
        scene=scene.facts(changed=True),
    )
    still = replace(
        pair,
        pair_id=f"{number}.png_n",
        captions=tuple(grammar.no_change_captions(rng)),
        change_type="none",
        changed_object=None,
        scene=scene.facts(changed=False),
    )
    return [pair, still]


def draw_pairs(seed, count=40):
    return [pair for number in range(count) for pair in pairs_of(number, seed)]
