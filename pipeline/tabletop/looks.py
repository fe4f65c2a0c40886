"""The two looks of rendered scenes. A look is a set of constants for light, materials and cubes."""

import math
from dataclasses import dataclass

import numpy as np

Colour = tuple[float, float, float]


@dataclass(frozen=True)
class Look:
    """Constants of a look: light, materials and shape of cubes (docs/tabletop.md, "Looks and effects")."""

    falloff: float  # added to the squared distance of a lamp; with a large value the light is more even
    ambient: float
    down: float  # share of the ambient light that comes from above
    ground: float
    haze: float  # distance at which the ground has half the colour of the horizon
    horizon: float
    steep: float  # how fast the sky becomes darker above the horizon
    zenith: float  # minimum brightness of the sky / brightness of the horizon
    band: float  # brightness of a band in the sky; metal mirrors this band
    rubber_shine: float
    metal_shine: float
    metal_sheen: float
    metal_mirror: float
    metal_body: float
    metal_far: float  # strength of the mirror image of far objects; below 1, flat sides of cubes are shaded
    lamp_powers: tuple[float, float, float]  # of the key, fill and back light
    lamp_colours: tuple[Colour, Colour, Colour]
    contrast: float  # exponent that turns colours into reflectances: 1 gives pale objects, 2.2 dark objects
    cube: float  # radius of a sphere / half of the side of a cube that has the same size attribute
    rounded: bool  # True if cubes have rounded edges

    def style(self) -> np.ndarray:
        """Return the constants for the ray tracer, in the order of the indices in raytracer.py."""
        values = list(vars(self).values())
        return np.array(values[: values.index(self.lamp_powers)])


STUDIO = Look(
    falloff=60.0,
    ambient=0.2,
    down=0.35,
    ground=0.5,
    haze=30.0,
    horizon=0.42,
    steep=1.0,
    zenith=0.0,
    band=0.9,
    rubber_shine=0.03,
    metal_shine=1.5,
    metal_sheen=0.1,
    metal_mirror=1.5,
    metal_body=0.1,
    metal_far=0.18,
    lamp_powers=(105.0, 28.0, 42.0),
    lamp_colours=((1.0, 0.94, 0.85), (0.85, 0.92, 1.0), (1.0, 1.0, 1.0)),
    contrast=1.6,
    cube=math.sqrt(2),
    rounded=False,
)

CLEVR = Look(
    falloff=23.1,
    ambient=0.098,
    down=0.24,
    ground=0.54,
    haze=25.2,
    horizon=0.205,
    steep=1.585,
    zenith=0.139,
    band=0.0,
    rubber_shine=0.012,
    metal_shine=2.5,
    metal_sheen=0.03,
    metal_mirror=1.02,
    metal_body=0.044,
    metal_far=1.0,
    lamp_powers=(24.3, 7.16, 10.7),
    lamp_colours=((1.03, 1.0, 0.92), (0.93, 1.0, 1.07), (1.0, 1.0, 1.02)),
    contrast=1.12,
    cube=1.017,
    rounded=True,
)

LOOKS = {"studio": STUDIO, "clevr": CLEVR}
