"""Pictures and object-id buffers: cameras, lamps and the sRGB curve around the ray tracer, in NumPy."""

import math

import numpy as np

from pipeline.tabletop import geometry, raytracer
from pipeline.tabletop.effects import NONE, Effects, curves, develop
from pipeline.tabletop.looks import STUDIO, Look

FIELD_OF_VIEW = math.radians(49.1)  # along the longer side of the picture


def identify(solids: np.ndarray, camera: tuple[float, float, float], width: int, height: int) -> np.ndarray:
    """The object-id buffer, not antialiased: which row of `solids` each pixel's centre shows.

    `solids` is n x 10: kind, x, y, radius (a cube's half side), cosine and sine of the rotation
    about z, linear red, green, blue, material. Returns height x width int8: the row, GROUND or SKY.
    """
    rows = np.empty((height, width), dtype=np.int8)
    raytracer.identify(rows, *_seen(solids, camera, width, height))
    return rows


def render(
    solids: np.ndarray,
    camera: tuple[float, float, float],
    lights: tuple[tuple[float, float, float], ...],
    width: int,
    height: int,
    look: Look = STUDIO,
    effects: Effects = NONE,
) -> np.ndarray:
    """The picture, height x width x 3 uint8 (sRGB); `lights` are the key, fill and back light's places."""
    solids, masks, place, axes = _seen(solids, camera, width, height)
    lamps = lamp_table(lights, look)
    tiles = -(-width // raytracer.TILE) * -(-height // raytracer.TILE)
    shaders = np.empty((tiles + 1, len(lights)), dtype=np.int64)
    raytracer.find_shaders(shaders, solids, place, axes, lamps, width, height)
    passes = np.empty((2, height, width, 3), dtype=np.uint8)
    tones = curves(effects)
    raytracer.paint(passes, look.style(), solids, masks, shaders, place, axes, lamps, tones)
    return develop(passes[1], effects)


def _seen(
    solids: np.ndarray, camera: tuple[float, float, float], width: int, height: int
) -> tuple[np.ndarray, np.ndarray, tuple[float, ...], tuple[tuple[float, ...], ...]]:
    """The solids, the pixels that may show each, the camera's place, and its axes in pixels."""
    axes = camera_axes(camera)
    right, down, forward = (tuple(axis) for axis in axes.tolist())
    focal = focal_length(width, height)
    scaled = (right, down, tuple(focal * part for part in forward))
    return solids, _masks(solids, camera, axes, width, height), tuple(map(float, camera)), scaled


def camera_axes(camera: tuple[float, float, float]) -> np.ndarray:
    """3 x 3: unit vectors right, down and forward (rows) of a camera that looks at the origin."""
    forward = -np.asarray(camera) / math.hypot(*camera)
    right = np.array([forward[1], -forward[0], 0.0]) / math.hypot(forward[0], forward[1])
    return np.stack([right, np.cross(forward, right), forward])


def focal_length(width: int, height: int) -> float:
    """Focal length in pixels."""
    return max(width, height) / 2 / math.tan(FIELD_OF_VIEW / 2)


def lamp_table(lights: tuple[tuple[float, float, float], ...], look: Look = STUDIO) -> np.ndarray:
    """lights x (PLACES + 2) x 3, the lamps as the ray tracer wants them."""
    lamps = np.empty((len(lights), raytracer.PLACES + 2, 3))
    for i, light in enumerate(lights):
        lamps[i, : raytracer.PLACES] = _lamp_places(np.asarray(light))
        lamps[i, raytracer.CENTRE] = light
        lamps[i, raytracer.POWER] = np.multiply(look.lamp_colours[i], look.lamp_powers[i])
    return lamps


def _lamp_places(centre: np.ndarray) -> np.ndarray:
    """PLACES x 3: a grid of places on a square lamp that faces the origin, the four corners first."""
    right, down, _ = camera_axes(tuple(centre))
    return centre + LAMP_GRID[:, :1] * right + LAMP_GRID[:, 1:] * down


def _lamp_grid() -> np.ndarray:
    """PLACES x 2: places on a lamp, right and down from its centre."""
    side = math.isqrt(raytracer.PLACES)
    steps = [raytracer.LAMP_SIZE * ((at + 0.5) / side - 0.5) for at in range(side)]
    grid = [(u, v) for u in steps for v in steps]
    grid.sort(key=lambda place: -min(abs(place[0]), abs(place[1])))
    return np.array(grid)


LAMP_GRID = _lamp_grid()


def _masks(
    solids: np.ndarray, camera: tuple[float, float, float], axes: np.ndarray, width: int, height: int
) -> np.ndarray:
    """height x width int64: the rows of `solids` that a pixel may show, a bit each; seldom too many."""
    masks = np.zeros((height, width), dtype=np.int64)
    focal = focal_length(width, height)
    for row, (kind, x, y, radius) in enumerate(solids[:, :4]):
        bound = radius * geometry.BOUNDING[int(kind)]
        across, down, depth = (float(at) for at in axes @ np.subtract((x, y, radius), camera))
        if depth <= 2 * bound:  # beside or behind the camera: it may be anywhere
            masks |= 1 << row
            continue
        # more than the outline: the bounding sphere at its nearest depth
        reach = bound * focal / (depth - bound) * (1 + max(abs(across), abs(down)) / depth) + 1
        column, line = width / 2 + focal * across / depth, height / 2 + focal * down / depth
        left, right, top, bottom = (
            max(int(at), 0) for at in (column - reach, column + reach + 1, line - reach, line + reach + 1)
        )
        masks[top:bottom, left:right] |= 1 << row
    return masks
