"""Compute where rays hit spheres, cubes and cylinders on a plane. The ray tracer uses these Numba functions.

Lengths are in CLEVR's units. z points up, and the ground is the plane z = 0.

`solids` is an array (n, 10) of n solids, at most 62. The columns are kind, x, y, radius (for a cube:
half of its side), cosine and sine of the rotation about z, linear red, green and blue, and material.
`k` is the row of a solid. The centre of a solid is at the height of its radius.

A ray begins at the point `start`, and `ray` is the vector of its direction. Functions for one solid get `at`
instead of `start`: the same point relative to the centre of the solid.
"""

import hashlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

SPHERE, CUBE, CYLINDER, ROUNDED = 0, 1, 2, 3
GROUND, SKY = -1, -2
# radius of the bounding sphere / radius of the solid, rounded up, for each kind of solid
BOUNDING = (1.0001, 1.7322, 1.4143, 1.7322)
BEVEL = 0.14  # radius of the edges of a rounded cube / half of the cube's side
KERNELS = [Path(__file__).with_name(name) for name in ("geometry.py", "raytracer.py")]
VERSION = hashlib.sha256(b"".join(file.read_bytes() for file in KERNELS)).hexdigest()[:12]


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function with Numba, and cache it if possible, under a name with the hash of all such files.

    `_nrt=False` switches off reference counting, which took half of the functions' run time.
    """
    function.__qualname__ += f"_{VERSION}"
    options: dict[str, Any] = {"error_model": "numpy", "forceinline": True, "_nrt": False}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # numba: "no locator available"
        return njit(**options)(function)


@compiled
def dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@compiled
def minus(a, b):
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


@compiled
def along(start, ray, distance):
    return start[0] + distance * ray[0], start[1] + distance * ray[1], start[2] + distance * ray[2]


@compiled
def unit(a):
    scale = 1.0 / math.sqrt(dot(a, a))
    return a[0] * scale, a[1] * scale, a[2] * scale


@compiled
def _turned(solids, k, ray):
    """Return the direction `ray` in the coordinate system of solid `k`, which may be rotated about z."""
    cosine, sine = solids[k, 4], solids[k, 5]
    return cosine * ray[0] + sine * ray[1], cosine * ray[1] - sine * ray[0], ray[2]


@compiled
def strike(solids, k, start, ray):
    """Return the distance along the ray, a unit direction, to solid `k`, and the face (see `normal_at`).

    The ray begins at `start`, outside the solid. The distance is infinite if it misses.
    """
    at, radius = minus(start, (solids[k, 1], solids[k, 2], solids[k, 3])), solids[k, 3]
    if solids[k, 0] == CUBE:
        return _strike_cube(radius, _turned(solids, k, at), _turned(solids, k, ray))
    if solids[k, 0] == CYLINDER:
        return _strike_cylinder(radius, at, ray)
    if solids[k, 0] == ROUNDED:
        return _strike_rounded(radius, _turned(solids, k, at), _turned(solids, k, ray))
    half = dot(at, ray)
    root = half * half - (dot(at, at) - radius * radius)
    return (-half - math.sqrt(root), 0) if root > 0.0 and half < 0.0 else (np.inf, 0)


@compiled
def _strike_cube(half, at, ray):
    """Return the distance along a ray to a cube, infinite if none, and the axis of the face, 0, 1 or 2.

    `half` is half of the cube's side. `at` and `ray` are in the cube's own, rotated coordinates.
    """
    enter, leave, face = 0.0, np.inf, -1
    for axis in range(3):
        if ray[axis] == 0.0:
            if abs(at[axis]) >= half:
                return np.inf, 0
            continue
        middle, reach = -at[axis] / ray[axis], half / abs(ray[axis])
        if middle - reach > enter:
            enter, face = middle - reach, axis
        leave = min(leave, middle + reach)
    return (np.inf, 0) if enter >= leave or face < 0 else (enter, face)


@compiled
def _strike_cylinder(radius, at, ray):
    """Return the distance along a ray to a cylinder of height 2 * `radius`, and the side (0) or end (2).

    `at` is the ray's start relative to the centre. The distance is infinite if it misses.
    """
    a = ray[0] * ray[0] + ray[1] * ray[1]
    if a > 0.0:
        b = at[0] * ray[0] + at[1] * ray[1]
        root = b * b - a * (at[0] * at[0] + at[1] * at[1] - radius * radius)
        if root <= 0.0:
            return np.inf, 0
        distance = (-b - math.sqrt(root)) / a
        if distance > 0.0 and abs(at[2] + distance * ray[2]) <= radius:
            return distance, 0
    distance = (math.copysign(radius, at[2]) - at[2]) / ray[2] if ray[2] != 0.0 else -1.0
    x, y, _ = along(at, ray, distance)
    return (distance, 2) if distance > 0.0 and x * x + y * y <= radius * radius else (np.inf, 0)


@compiled
def _strike_rounded(half, at, ray):
    """Return the distance along a ray to a cube with rounded edges, infinite if none, and a face.

    The radius of the edges and corners is BEVEL * half. If the ray enters the cube without rounding far from
    its edges, this hit is the result. Otherwise the nearest corner, its three edges and its three flat faces
    are tested, and the face is 0, because `normal_at` does not need it.
    """
    distance, face = _strike_cube(half, at, ray)
    if distance == np.inf:
        return np.inf, 0
    x, y, z = along(at, ray, distance)
    flat, bevel = half * (1.0 - BEVEL), half * BEVEL
    if (abs(x) > flat) + (abs(y) > flat) + (abs(z) > flat) < 2:
        return distance, face
    # the edges and the corner of the octant in which the ray enters the cube without rounded edges
    at = (
        math.copysign(1.0, x) * at[0] - flat,
        math.copysign(1.0, y) * at[1] - flat,
        math.copysign(1.0, z) * at[2] - flat,
    )
    ray = math.copysign(1.0, x) * ray[0], math.copysign(1.0, y) * ray[1], math.copysign(1.0, z) * ray[2]
    best = _strike_ball(at, ray, bevel)
    for axis in range(3):
        u, v = (axis + 1) % 3, (axis + 2) % 3
        a = ray[u] * ray[u] + ray[v] * ray[v]
        b = at[u] * ray[u] + at[v] * ray[v]
        root = b * b - a * (at[u] * at[u] + at[v] * at[v] - bevel * bevel)
        if root > 0.0 and a > 0.0:
            reached = (-b - math.sqrt(root)) / a
            along_edge = at[axis] + ray[axis] * reached
            if reached > 0.0 and along_edge < 0.0 and along_edge > -2.0 * flat:
                best = min(best, reached)
    for axis in range(3):  # a flat part behind an edge that the ray misses
        if ray[axis] < 0.0:
            u, v = (axis + 1) % 3, (axis + 2) % 3
            reached = (bevel - at[axis]) / ray[axis]
            p, q = at[u] + ray[u] * reached, at[v] + ray[v] * reached
            if reached > 0.0 and p <= 0.0 and q <= 0.0 and p >= -2.0 * flat and q >= -2.0 * flat:
                best = min(best, reached)
    return best, 0


@compiled
def _strike_ball(at, ray, radius):
    half = dot(at, ray)
    root = half * half - (dot(at, at) - radius * radius)
    return -half - math.sqrt(root) if root > 0.0 and half < 0.0 else np.inf


@compiled
def normal_at(solids, k, face, point):
    """Return the outward unit normal of a solid's surface at `point`; `k` is its row in `solids`.

    For a cube, `face` is the axis across the face: 0, 1 or 2. For a cylinder, it is 0 (side) or 2 (end).
    """
    at, radius = minus(point, (solids[k, 1], solids[k, 2], solids[k, 3])), solids[k, 3]
    if solids[k, 0] == SPHERE:
        return unit(at)
    if solids[k, 0] == ROUNDED:
        return _normal_rounded(radius, solids[k, 4], solids[k, 5], _turned(solids, k, at))
    if face == 2:
        return 0.0, 0.0, math.copysign(1.0, at[2])
    if solids[k, 0] == CYLINDER:
        return at[0] / radius, at[1] / radius, 0.0
    side = math.copysign(1.0, _turned(solids, k, at)[face])
    cosine, sine = side * solids[k, 4], side * solids[k, 5]
    return (cosine, sine, 0.0) if face == 0 else (-sine, cosine, 0.0)


@compiled
def _normal_rounded(half, cosine, sine, at):
    flat = half * (1.0 - BEVEL)
    x, y, z = unit((_beyond(at[0], flat), _beyond(at[1], flat), _beyond(at[2], flat)))
    return cosine * x - sine * y, sine * x + cosine * y, z


@compiled
def _beyond(coordinate, flat):
    """Return the signed distance of `coordinate` to the interval from -`flat` to `flat`; 0 inside."""
    return math.copysign(max(abs(coordinate) - flat, 0.0), coordinate)


@compiled
def first(solids, near, start, ray):
    """Return a ray's nearest hit: distance, row in `solids` (or GROUND or SKY), and face (see `normal_at`).

    `ray` is a unit direction. Only solids whose bit in the mask `near` is set are tested.
    """
    distance, row, face = np.inf, SKY, 0
    if ray[2] < 0.0:
        distance, row = -start[2] / ray[2], GROUND
    for k in range(len(solids)):
        if near >> k & 1:
            reached, struck = strike(solids, k, start, ray)
            if reached < distance:
                distance, row, face = reached, k, struck
    return distance, row, face


@compiled
def blocks(solids, k, start, gap):
    """Return True if solid `k` blocks the line segment from `start`, outside it, to `start + gap`."""
    at, radius = minus(start, (solids[k, 1], solids[k, 2], solids[k, 3])), solids[k, 3]
    if solids[k, 0] == CUBE or solids[k, 0] == ROUNDED:
        return _blocks_cube(radius, _turned(solids, k, at), _turned(solids, k, gap))
    low, high, upright = 0.0, 1.0, 1.0
    if solids[k, 0] == CYLINDER:  # cut the segment at the heights of the lids, then test a circle in x and y
        ends = (-radius - at[2]) / gap[2], (radius - at[2]) / gap[2]
        low, high, upright = max(min(ends[0], ends[1]), 0.0), min(max(ends[0], ends[1]), 1.0), 0.0
        if low >= high:
            return False
    at, gap = (at[0], at[1], at[2] * upright), (gap[0], gap[1], gap[2] * upright)
    nearest = along(at, gap, min(max(-dot(at, gap) / max(dot(gap, gap), 1e-9), low), high))
    return dot(nearest, nearest) < radius * radius


@compiled
def _blocks_cube(half, at, gap):
    """Return True if the segment from `at` to `at + gap` overlaps a cube, by the separating axis test.

    `half` is half of the cube's side; coordinates are the cube's own. Six axes are tested: the cube's three,
    and those perpendicular to the segment and to one of them.
    """
    x, y, z = gap[0] / 2, gap[1] / 2, gap[2] / 2
    a, b, c = at[0] + x, at[1] + y, at[2] + z
    return (
        abs(a) < half + abs(x)
        and abs(b) < half + abs(y)
        and abs(c) < half + abs(z)
        and abs(b * z - c * y) <= half * (abs(y) + abs(z))
        and abs(c * x - a * z) <= half * (abs(z) + abs(x))
        and abs(a * y - b * x) <= half * (abs(x) + abs(y))
    )
