"""Ray tracer for a few spheres, cubes and cylinders on a plane, in Numba, with the same bytes everywhere.

No fastmath, no threads, no random numbers: a picture depends on nothing but its scene. World
units are CLEVR's; z points up, the ground is z = 0. Colours are linear light, 1 is white.

`solids` is n x 10, n <= 62: kind, x, y, radius (a cube's half side), cosine and sine of the
rotation about z, red, green, blue, material. `lamps` is m x (PLACES + 2) x 3: places on a
square lamp, its centre, its power. `masks` is height x width: the solids that a pixel may show, a
bit for each, as in `near`. All kernels are in this file: Numba's cache sees no other's changes.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

SPHERE, CUBE, CYLINDER = 0, 1, 2
GROUND, SKY = -1, -2
RUBBER, METAL = 0, 1
PLACES = 36  # on a lamp, its corners first: 6 x 6
CENTRE, POWER = PLACES, PLACES + 1  # the further rows of a lamp

LAMP_SIZE = 0.8  # side of the square lamps; what makes the shadows soft
FALLOFF = 60.0  # added to the square of a lamp's distance: no pool of light under a lamp
AMBIENT, GROUND_COLOUR = 0.2, 0.5
HAZE = 30.0  # the distance at which the ground has half become the horizon
SKY_HORIZON, SKY_BAND = 0.42, 0.9
RUBBER_GLOSS, RUBBER_SHINE = 12, 0.03  # whole exponents are products: the same on every machine
METAL_GLOSS, METAL_SHINE, METAL_SHEEN, METAL_MIRROR, METAL_BODY = 150, 1.5, 0.1, 1.5, 0.1
METAL_FAR = 0.18  # how much of a far thing metal mirrors; less than 1 shades a cube's even sides
NEAR = 1e-4  # how far a secondary ray starts from its surface


def compiled(function: Callable[..., Any]) -> Any:
    """Numba's compiler, cached on disk where there is a folder to write to and in memory where not."""
    try:
        return njit(cache=True, error_model="numpy", forceinline=True)(function)
    except RuntimeError:  # numba: "no locator available"
        return njit(error_model="numpy", forceinline=True)(function)


@compiled
def _dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@compiled
def _minus(a, b):
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


@compiled
def _along(start, way, distance):
    return start[0] + distance * way[0], start[1] + distance * way[1], start[2] + distance * way[2]


@compiled
def _unit(a):
    scale = 1.0 / math.sqrt(_dot(a, a))
    return a[0] * scale, a[1] * scale, a[2] * scale


@compiled
def _turned(solids, k, way):
    """A direction in the axes of a solid."""
    cosine, sine = solids[k, 4], solids[k, 5]
    return cosine * way[0] + sine * way[1], cosine * way[1] - sine * way[0], way[2]


@compiled
def _strike(solids, k, start, way):
    """Distance from outside along a unit direction to a solid, infinity where it misses; the face met."""
    at, radius = _minus(start, (solids[k, 1], solids[k, 2], solids[k, 3])), solids[k, 3]
    if solids[k, 0] == CUBE:
        return _strike_cube(radius, _turned(solids, k, at), _turned(solids, k, way))
    if solids[k, 0] == CYLINDER:
        return _strike_cylinder(radius, at, way)
    half = _dot(at, way)
    root = half * half - (_dot(at, at) - radius * radius)
    return (-half - math.sqrt(root), 0) if root > 0.0 and half < 0.0 else (np.inf, 0)


@compiled
def _strike_cube(half, at, way):
    """Faces 0, 1, 2 are the pairs across the axes x, y, z."""
    enter, leave, face = 0.0, np.inf, -1
    for axis in range(3):
        if way[axis] == 0.0:
            if abs(at[axis]) >= half:
                return np.inf, 0
            continue
        middle, reach = -at[axis] / way[axis], half / abs(way[axis])
        if middle - reach > enter:
            enter, face = middle - reach, axis
        leave = min(leave, middle + reach)
    return (np.inf, 0) if enter >= leave or face < 0 else (enter, face)


@compiled
def _strike_cylinder(radius, at, way):
    """Upright, 2 x radius high; face 0 is the side, 2 a lid."""
    a = way[0] * way[0] + way[1] * way[1]
    if a > 0.0:
        b = at[0] * way[0] + at[1] * way[1]
        root = b * b - a * (at[0] * at[0] + at[1] * at[1] - radius * radius)
        if root <= 0.0:
            return np.inf, 0
        distance = (-b - math.sqrt(root)) / a
        if distance > 0.0 and abs(at[2] + distance * way[2]) <= radius:
            return distance, 0
    distance = (math.copysign(radius, at[2]) - at[2]) / way[2] if way[2] != 0.0 else -1.0
    x, y, _ = _along(at, way, distance)
    return (distance, 2) if distance > 0.0 and x * x + y * y <= radius * radius else (np.inf, 0)


@compiled
def _normal(solids, k, face, point):
    """Unit outward normal at a point of a solid's surface."""
    at, radius = _minus(point, (solids[k, 1], solids[k, 2], solids[k, 3])), solids[k, 3]
    if solids[k, 0] == SPHERE:
        return _unit(at)
    if face == 2:
        return 0.0, 0.0, math.copysign(1.0, at[2])
    if solids[k, 0] == CYLINDER:
        return at[0] / radius, at[1] / radius, 0.0
    side = math.copysign(1.0, _turned(solids, k, at)[face])
    cosine, sine = side * solids[k, 4], side * solids[k, 5]
    return (cosine, sine, 0.0) if face == 0 else (-sine, cosine, 0.0)


@compiled
def _first(solids, near, start, way):
    """What a ray meets first, of the solids `near`: distance, row (or GROUND, SKY), face."""
    distance, row, face = np.inf, SKY, 0
    if way[2] < 0.0:
        distance, row = -start[2] / way[2], GROUND
    for k in range(len(solids)):
        if near >> k & 1:
            reached, struck = _strike(solids, k, start, way)
            if reached < distance:
                distance, row, face = reached, k, struck
    return distance, row, face


@compiled
def _sees(solids, near, point, place):
    """1 where none of the solids `near` stands between a point and a place on a lamp, else 0."""
    gap = _minus(place, point)
    length, way = math.sqrt(_dot(gap, gap)), _unit(gap)
    for k in range(len(solids)):
        if near >> k & 1 and _strike(solids, k, point, way)[0] < length:
            return 0
    return 1


@compiled
def _visible(solids, lamp, point):
    """The share of a lamp that a point sees: of its corners; where they disagree, of all its places."""
    gap = _minus(lamp[CENTRE], point)
    square, spread, near = _dot(gap, gap), LAMP_SIZE * 0.7072, 0
    for k in range(len(solids)):
        # out is a thing whose bounding sphere, grown by the lamp, stays clear of the way to the lamp
        to = _minus((solids[k, 1], solids[k, 2], solids[k, 3]), point)
        share = min(max(_dot(to, gap) / square, 0.0), 1.0)
        aside = _along(to, gap, -share)
        bound = solids[k, 3] * 1.7321
        reach = bound + spread * min(share + (bound + spread) / math.sqrt(square), 1.0)
        if _dot(aside, aside) <= reach * reach:
            near |= 1 << k
    if near == 0:
        return 1.0
    seen = 0
    for place in range(PLACES):
        if place == 4 and (seen == 0 or seen == 4):
            return seen / 4
        seen += _sees(solids, near, point, lamp[place])
    return seen / PLACES


@compiled
def _lit(solids, lamps, point, normal, view, gloss):
    """Light at a point: diffuse red, green, blue; the highlight (exponent `gloss`) against `view`."""
    red = green = blue = AMBIENT * (0.65 + 0.35 * normal[2])
    shine = 0.0
    for lamp in lamps:
        gap = _minus(lamp[CENTRE], point)
        facing = _dot(gap, normal)
        if facing <= 0.0:
            continue
        square = _dot(gap, gap)
        strength = _visible(solids, lamp, point) / (square + FALLOFF)
        diffuse = strength * facing / math.sqrt(square)
        red += lamp[POWER, 0] * diffuse
        green += lamp[POWER, 1] * diffuse
        blue += lamp[POWER, 2] * diffuse
        if gloss > 0 and strength > 0.0:
            cosine = _dot(_unit(_minus(_unit(gap), view)), normal)
            shine += lamp[POWER, 1] * strength * max(cosine, 0.0) ** gloss
    return red, green, blue, shine


@compiled
def _matte(solids, lamps, hit, start, way):
    """Colour of the rubber, the ground or the sky that a ray met; metal in a mirror passes for rubber."""
    distance, row, face = hit
    if row == SKY:  # a studio: dim at the horizon and overhead, a bright band between
        light = SKY_HORIZON * (1.0 - way[2]) + SKY_BAND * max(1.0 - ((way[2] - 0.5) / 0.25) ** 2, 0.0)
        return light, light, light
    point = _along(start, way, distance)
    if row == GROUND:
        red, green, blue, _ = _lit(solids, lamps, point, (0.0, 0.0, 1.0), way, 0)
        haze = distance * distance / (distance * distance + HAZE * HAZE)
        own, far = GROUND_COLOUR * (1.0 - haze), SKY_HORIZON * haze
        return own * red + far, own * green + far, own * blue + far
    normal = _normal(solids, row, face, point)
    red, green, blue, shine = _lit(solids, lamps, _along(point, normal, NEAR), normal, way, RUBBER_GLOSS)
    shine *= RUBBER_SHINE
    return solids[row, 6] * red + shine, solids[row, 7] * green + shine, solids[row, 8] * blue + shine


@compiled
def _metal(solids, lamps, hit, start, way):
    """Colour of metal: a tinted mirror of what one bounce meets, a little body, sharp highlights."""
    distance, row, face = hit
    point = _along(start, way, distance)
    normal = _normal(solids, row, face, point)
    outside = _along(point, normal, NEAR)
    bounce = _along(way, normal, -2.0 * _dot(way, normal))
    met = _first(solids, ~(1 << row), outside, bounce)  # never itself: it is convex
    mirror = _matte(solids, lamps, met, outside, bounce)
    far, sheen = (0.0, METAL_SHEEN) if met[1] == SKY else (met[0] / solids[row, 3], 0.0)
    share = METAL_MIRROR * (METAL_FAR + (1.0 - METAL_FAR) / (1.0 + far * far))
    red, green, blue, shine = _lit(solids, lamps, outside, normal, way, METAL_GLOSS)
    shine = METAL_SHINE * shine + sheen * mirror[0]
    return (
        solids[row, 6] * (share * mirror[0] + METAL_BODY * red) + shine,
        solids[row, 7] * (share * mirror[1] + METAL_BODY * green) + shine,
        solids[row, 8] * (share * mirror[2] + METAL_BODY * blue) + shine,
    )


@compiled
def _shade(solids, lamps, hit, start, way):
    """Colour of what a camera ray met."""
    if hit[1] >= 0 and solids[hit[1], 9] == METAL:
        return _metal(solids, lamps, hit, start, way)
    return _matte(solids, lamps, hit, start, way)


@compiled
def _ray(axes, across, down):
    """Unit direction through a point of the picture, in pixels from its middle."""
    return _unit(_along(_along(axes[2], axes[0], across), axes[1], down))


@compiled
def identify(solids, masks, camera, axes):
    """The object-id buffer, height x width int8: the row, GROUND or SKY at the centre of each pixel."""
    height, width = masks.shape
    rows = np.empty(masks.shape, dtype=np.int8)
    for line in range(height):
        for column in range(width):
            way = _ray(axes, column + 0.5 - width / 2, line + 0.5 - height / 2)
            rows[line, column] = _first(solids, masks[line, column], camera, way)[1]
    return rows


@compiled
def paint(solids, masks, camera, axes, lamps):
    """The picture in linear light, height x width x 3 float64: the mean of 2 x 2 samples a pixel."""
    (height, width), picture = masks.shape, np.zeros((*masks.shape, 3))
    for line in range(height):
        for column in range(width):
            across, down = column + 0.5 - width / 2, line + 0.5 - height / 2
            near = masks[line, column]
            way = _ray(axes, across, down)
            hit = _first(solids, near, camera, way)
            even = _even(solids, near, camera, axes, across, down, hit)
            for sub in range(1 if even else 4):
                if not even:
                    way = _ray(axes, across + (sub % 2 - 0.5) / 2, down + (sub // 2 - 0.5) / 2)
                    hit = _first(solids, near, camera, way)
                colour = _shade(solids, lamps, hit, camera, way)
                for channel in range(3):
                    picture[line, column, channel] += min(colour[channel], 1.0) * (1.0 if even else 0.25)
    return picture


@compiled
def _even(solids, near, camera, axes, across, down, hit):
    """Whether the four samples meet the matte face that the pixel's middle meets: then one does for all."""
    if hit[1] >= 0 and solids[hit[1], 9] == METAL:  # what it mirrors has outlines too
        return False
    for sub in range(4 if near else 0):
        way = _ray(axes, across + (sub % 2 - 0.5) / 2, down + (sub // 2 - 0.5) / 2)
        if _first(solids, near, camera, way)[1:] != hit[1:]:
            return False
    return True
