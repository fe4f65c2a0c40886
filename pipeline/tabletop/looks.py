"""The looks of rendered scenes. A look is a set of constants for light, materials and cubes.

Blender draws the scenes of the look `blender` (blender.py). The ray tracer draws the others.
"""

import math
from dataclasses import dataclass

import numpy as np

Colour = tuple[float, float, float]
STYLES = (  # values of the looks studio and clevr; raytracer.py has the names of the constants, in this order
    (60.0, 23.1),  # falloff: added to the squared distance of a lamp; a large value gives more even light
    (0.2, 0.098),  # ambient light
    (0.35, 0.24),  # share of the ambient light that comes from above
    (0.5, 0.54),  # ground colour
    (30.0, 25.2),  # haze: distance at which the ground has half the colour of the horizon
    (0.42, 0.205),  # brightness of the sky at the horizon
    (1.0, 1.585),  # how fast the sky becomes darker above the horizon
    (0.0, 0.139),  # minimum brightness of the sky / brightness of the horizon
    (0.9, 0.0),  # brightness of a band in the sky; metal mirrors this band
    (0.03, 0.012),  # strength of highlights on rubber
    (1.5, 2.5),  # strength of highlights on metal
    (0.1, 0.03),  # metal: strength of the untinted reflection of the sky
    (1.5, 1.02),  # metal: strength of the tinted reflection
    (0.1, 0.044),  # metal: strength of diffuse light
    (0.18, 1.0),  # metal: reflection of far objects; below 1, flat sides of cubes are shaded
)
STUDIO_STYLE, CLEVR_STYLE = (np.array(values) for values in zip(*STYLES, strict=True))


@dataclass(frozen=True)
class LookConstants:
    """Constants of a look: light, materials and shape of cubes (docs/tabletop.md, "Looks and effects")."""

    style: np.ndarray  # constants for the ray tracer: a column of STYLES
    lamp_powers: tuple[float, float, float]  # of the key, fill and back light
    lamp_colours: tuple[Colour, Colour, Colour]
    contrast: float  # exponent that turns colours into reflectances: 1 gives pale objects, 2.2 dark objects
    cube: float  # radius of a sphere / half of the side of a cube that has the same size attribute
    rounded: bool  # True if cubes have rounded edges


STUDIO = LookConstants(
    STUDIO_STYLE,
    lamp_powers=(105.0, 28.0, 42.0),
    lamp_colours=((1.0, 0.94, 0.85), (0.85, 0.92, 1.0), (1.0, 1.0, 1.0)),
    contrast=1.6,
    cube=math.sqrt(2),
    rounded=False,
)
CLEVR = LookConstants(
    CLEVR_STYLE,
    lamp_powers=(24.3, 7.16, 10.7),
    lamp_colours=((1.03, 1.0, 0.92), (0.93, 1.0, 1.07), (1.0, 1.0, 1.02)),
    contrast=1.12,
    cube=1.017,
    rounded=True,
)
# CLEVR imitates what Blender draws. For scenes that Blender draws, only its cubes count: they decide which
# object a pixel shows (rendering.identify).
LOOKS = {"studio": STUDIO, "clevr": CLEVR, "blender": CLEVR}
