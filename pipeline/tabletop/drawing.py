"""Draw an image of a scene in the scene's look, by the ray tracer or by Blender."""

import numpy as np

from pipeline.config.params import Tabletop
from pipeline.tabletop import blender, rendering, scenes
from pipeline.tabletop.effects import Effects, retouch
from pipeline.tabletop.looks import LOOKS


def image(
    settings: Tabletop,
    scene: int,
    objects: tuple[scenes.SceneObject, ...],
    view: scenes.View,
    image_effects: Effects,
) -> np.ndarray:
    """Return the image of the objects, (height, width, 3) uint8; the number of the scene decides its look."""
    size = settings.width, settings.height
    if settings.look_of(scene) == "blender":
        return retouch(blender.draw(settings.assets, objects, view, *size), image_effects)
    look = LOOKS[settings.look_of(scene)]
    solids = scenes.solids(objects, look)
    return rendering.render(solids, view.camera, view.lights, *size, look, image_effects)
