"""Render images and object-id buffers: prepare cameras and lamps for the ray tracer, and call it."""

import math

import numpy as np

from pipeline.tabletop import geometry, raytracer
from pipeline.tabletop.effects import NONE, Effects, curves, develop
from pipeline.tabletop.looks import STUDIO, LookConstants
from pipeline.tabletop.words import Point

FIELD_OF_VIEW = math.radians(49.1)  # along the longer side of the image


def identify(solids: np.ndarray, camera: Point, width: int, height: int) -> np.ndarray:
    """Return the object-id buffer, (height, width) int8: GROUND, SKY, or a row in `solids`, (n, 10)."""
    rows = np.empty((height, width), dtype=np.int8)
    raytracer.identify(rows, *_seen(solids, camera, width, height))
    return rows


def render(
    solids: np.ndarray,
    camera: Point,
    lights: tuple[Point, ...],
    width: int,
    height: int,
    look: LookConstants = STUDIO,
    effects: Effects = NONE,
) -> np.ndarray:
    """Return a rendered sRGB image, (height, width, 3) uint8; `lights`: key, fill and back light."""
    solids, masks, position, axes = _seen(solids, camera, width, height)
    lamps = lamp_table(lights, look)
    tiles = -(-width // raytracer.TILE) * -(-height // raytracer.TILE)
    shaders = np.empty((tiles + 1, len(lights)), dtype=np.int64)
    raytracer.find_shaders(shaders, solids, position, axes, lamps, width, height)
    passes = np.empty((2, height, width, 3), dtype=np.uint8)
    raytracer.paint(passes, look.style, solids, masks, shaders, position, axes, lamps, curves(effects))
    return develop(passes[1], effects)


def _seen(
    solids: np.ndarray, camera: Point, width: int, height: int
) -> tuple[np.ndarray, np.ndarray, tuple[float, ...], tuple[tuple[float, ...], ...]]:
    """Return solids, masks of those that pixels may show, (height, width), camera, and its axes.

    The axes point right, down and forward. The last one's length is the focal length in pixels.
    """
    axes = _camera_axes(camera)
    focal = max(width, height) / 2 / math.tan(FIELD_OF_VIEW / 2)  # in pixels
    right, down, forward = (tuple(axis) for axis in axes.tolist())
    scaled = (right, down, tuple(focal * part for part in forward))
    return solids, _masks(solids, camera, axes, focal, width, height), tuple(map(float, camera)), scaled


def _camera_axes(camera: Point) -> np.ndarray:
    """Return the axes of a camera that looks at the origin, (3, 3): unit vectors right, down and forward."""
    forward = -np.asarray(camera) / math.hypot(*camera)
    right = np.array([forward[1], -forward[0], 0.0]) / math.hypot(forward[0], forward[1])
    return np.stack([right, np.cross(forward, right), forward])


def lamp_table(lights: tuple[Point, ...], look: LookConstants = STUDIO) -> np.ndarray:
    """Return PLACES points of each light's lamp, its centre and its power, (lights, PLACES + 2, 3)."""
    lamps = np.empty((len(lights), raytracer.PLACES + 2, 3))
    for i, light in enumerate(lights):
        # points of a grid on a square lamp, which faces the origin
        right, down, _ = _camera_axes(light)
        lamps[i, : raytracer.PLACES] = light + LAMP_GRID[:, :1] * right + LAMP_GRID[:, 1:] * down
        lamps[i, raytracer.CENTRE] = light
        lamps[i, raytracer.POWER] = np.multiply(look.lamp_colours[i], look.lamp_powers[i])
    return lamps


def _lamp_grid() -> np.ndarray:
    """Return the grid of points on a lamp, (PLACES, 2): offsets to the right and down from its centre."""
    side = math.isqrt(raytracer.PLACES)
    steps = [raytracer.LAMP_SIZE * ((step + 0.5) / side - 0.5) for step in range(side)]
    grid = [(u, v) for u in steps for v in steps]
    grid.sort(key=lambda offset: -min(abs(offset[0]), abs(offset[1])))
    return np.array(grid)


LAMP_GRID = _lamp_grid()


def _masks(
    solids: np.ndarray, camera: Point, axes: np.ndarray, focal: float, width: int, height: int
) -> np.ndarray:
    """Return for each pixel a bit mask of the solids that the pixel may show, (height, width) int64."""
    masks = np.zeros((height, width), dtype=np.int64)
    for row, (kind, x, y, radius) in enumerate(solids[:, :4]):
        bound = radius * geometry.BOUNDING[int(kind)]
        across, down, depth = (float(part) for part in axes @ np.subtract((x, y, radius), camera))
        if depth <= 2 * bound:  # the solid is next to or behind the camera, so any pixel may show it
            masks |= 1 << row
            continue
        # upper bound of the solid's size in the image: its bounding sphere at the nearest depth
        reach = bound * focal / (depth - bound) * (1 + max(abs(across), abs(down)) / depth) + 1
        column, line = width / 2 + focal * across / depth, height / 2 + focal * down / depth
        left, right, top, bottom = (
            max(int(edge), 0) for edge in (column - reach, column + reach + 1, line - reach, line + reach + 1)
        )
        masks[top:bottom, left:right] |= 1 << row
    return masks
