"""Numba ray tracer for a few solids (spheres, cubes and cylinders) on a plane.

It gives equal bytes on all machines. It uses no fastmath, threads or random numbers. Lengths are in
CLEVR's units. z points up, and the ground is the plane z = 0. Colours are linear light; 1 is white.
A bit mask of solids is an integer: bit k is 1 if solid number k belongs to the set.

Arguments of the functions:

    solids    the solids (pipeline/tabletop/geometry.py)
    among     a bit mask: the solids that are tested
    near      a bit mask: the solids that may hide a lamp, found by `_between`
    lamps     (m, PLACES + 2, 3): m square lamps; each has PLACES points, then a centre and a power
    masks     (height, width): for each pixel, a bit mask of the solids that it may show
    shaders   (tiles + 1, m): the image has tiles of TILE x TILE pixels. Row t, column k is a bit mask
              of the solids that may hide lamp k from the ground in tile t. The last row is for points
              on solids and points that a mirror shows; its masks have all solids.
    style     the constants of a look (pipeline/tabletop/looks.py)
    axes      the camera's axes: right, down and forward; forward is as long as the focal length in pixels
"""

import math

from pipeline.tabletop.geometry import (
    BOUNDING,
    GROUND,
    SKY,
    along,
    blocks,
    compiled,
    dot,
    first,
    minus,
    normal_at,
    unit,
)

RUBBER, METAL = 0, 1
PLACES = 16  # points of a 4 x 4 grid on a lamp; the corners are first
CENTRE, POWER = PLACES, PLACES + 1  # rows of a lamp after its points
TILE = 8  # side of a tile in pixels
ANYWHERE = -1  # index of the last row of `shaders`
CONTRAST = 12  # a pixel is sampled four times if it differs from a neighbour by more levels (of 255)

LAMP_SIZE = 0.8  # side of the square lamps; their size makes shadows soft
SPREAD = LAMP_SIZE * 0.7072  # distance from a lamp's centre to its corners, rounded up
RUBBER_GLOSS, METAL_GLOSS = 12, 150  # integer exponents, because products are equal on every machine
# indices of the constants in `style`
FALLOFF, AMBIENT, DOWN, GROUND_COLOUR, HAZE, SKY_HORIZON, SKY_STEEP, SKY_ZENITH, SKY_BAND = range(9)
RUBBER_SHINE, METAL_SHINE, METAL_SHEEN, METAL_MIRROR, METAL_BODY, METAL_FAR = range(9, 15)
NEAR = 1e-4  # distance between a surface and the start of a ray that leaves it


@compiled
def _sees(solids, near, point, target):
    """Return 1 if the segment from `point` to a lamp's point hits no solid of the bit mask `near`, else 0."""
    gap = minus(target, point)
    for k in range(len(solids)):
        if near >> k & 1 and blocks(solids, k, point, gap):
            return 0
    return 1


@compiled
def _between(solids, among, point, radius, gap, square):
    """Return, as a bit mask, the solids of `among` that may hide a lamp from points within `radius`.

    `gap` is the vector from `point` to the lamp's centre, and `square` is its squared length.
    """
    near, widens = 0, SPREAD - radius  # the cone from these points to the points of the lamp
    slope = widens / math.sqrt(square * max(square - widens * widens, NEAR))
    for k in range(len(solids)):
        if among >> k & 1:
            to = minus((solids[k, 1], solids[k, 2], solids[k, 3]), point)
            share = dot(to, gap) / square
            aside = max(dot(to, to) - share * share * square, 0.0)
            nearest = min(max(share + math.sqrt(aside) * slope, 0.0), 1.0)
            reach = solids[k, 3] * BOUNDING[int(solids[k, 0])] + radius + nearest * widens
            if aside + square * (nearest - share) ** 2 <= reach * reach:
                near |= 1 << k
    return near


@compiled
def _visible(solids, among, lamp, point, gap, square):
    """Return the fraction of a lamp visible from `point`; only solids of the bit mask `among` may hide it.

    If the four corners of the lamp's grid are all visible or all hidden, no other point is tested. `gap` is
    the vector from `point` to the lamp's centre, and `square` is its squared length.
    """
    near = _between(solids, among, point, 0.0, gap, square) if among else 0
    if near == 0:
        return 1.0
    seen = 0
    for index in range(PLACES):
        if index == 4 and (seen == 0 or seen == 4):
            return seen / 4
        seen += _sees(solids, near, point, lamp[index])
    return seen / PLACES


@compiled
def _lit(style, solids, lamps, shaders, tile, own_bit, point, normal, view, gloss):
    """Return the light at a point of a surface: diffuse red, green and blue, and the highlight.

    `shaders[tile]` has a bit mask of solids for each lamp. The point's own solid, `own_bit`, is left out if
    the whole lamp is above the tangent plane, because solids are convex. `gloss` is the highlight's exponent
    (0: no highlight).
    """
    red = green = blue = style[AMBIENT] * ((1.0 - style[DOWN]) + style[DOWN] * normal[2])
    shine = 0.0
    for m in range(len(lamps)):
        lamp = lamps[m]
        gap = minus(lamp[CENTRE], point)
        facing = dot(gap, normal)
        if facing <= 0.0:
            continue
        among = shaders[tile, m] & ~(own_bit if facing > SPREAD else 0)
        square = dot(gap, gap)
        seen = _visible(solids, among, lamp, point, gap, square)
        diffuse = seen * facing / ((square + style[FALLOFF]) * math.sqrt(square))
        red += lamp[POWER, 0] * diffuse
        green += lamp[POWER, 1] * diffuse
        blue += lamp[POWER, 2] * diffuse
        if gloss > 0 and seen > 0.0:
            cosine = dot(unit(minus(unit(gap), view)), normal)
            shine += lamp[POWER, 1] * seen / (square + style[FALLOFF]) * max(cosine, 0.0) ** gloss
    return red, green, blue, shine


@compiled
def _matte(style, solids, lamps, shaders, tile, hit, start, ray):
    """Return the colour where a ray hits anything without reflection, or metal that is itself reflected."""
    distance, row, face = hit
    if row == SKY:  # dark at the horizon and overhead, with a bright band between them
        light = style[SKY_HORIZON] * max(1.0 - style[SKY_STEEP] * ray[2], style[SKY_ZENITH]) + style[
            SKY_BAND
        ] * max(1.0 - ((ray[2] - 0.5) / 0.25) ** 2, 0.0)
        return light, light, light
    point = along(start, ray, distance)
    if row == GROUND:
        red, green, blue, _ = _lit(style, solids, lamps, shaders, tile, 0, point, (0.0, 0.0, 1.0), ray, 0)
        haze = distance * distance / (distance * distance + style[HAZE] * style[HAZE])
        ground, far = style[GROUND_COLOUR] * (1.0 - haze), style[SKY_HORIZON] * haze
        return ground * red + far, ground * green + far, ground * blue + far
    normal = normal_at(solids, row, face, point)
    outside = along(point, normal, NEAR)
    red, green, blue, shine = _lit(
        style, solids, lamps, shaders, ANYWHERE, 1 << row, outside, normal, ray, RUBBER_GLOSS
    )
    shine *= style[RUBBER_SHINE]
    return solids[row, 6] * red + shine, solids[row, 7] * green + shine, solids[row, 8] * blue + shine


@compiled
def _metal(style, solids, lamps, shaders, hit, start, ray):
    """Return the colour of metal where a ray hits: one tinted reflection, diffuse light and highlights."""
    distance, row, face = hit
    point = along(start, ray, distance)
    normal = normal_at(solids, row, face, point)
    outside = along(point, normal, NEAR)
    bounce = along(ray, normal, -2.0 * dot(ray, normal))
    met = first(solids, ~(1 << row), outside, bounce)  # a convex solid does not mirror itself
    mirror = _matte(style, solids, lamps, shaders, ANYWHERE, met, outside, bounce)
    far, sheen = (0.0, style[METAL_SHEEN]) if met[1] == SKY else (met[0] / solids[row, 3], 0.0)
    share = style[METAL_MIRROR] * (style[METAL_FAR] + (1.0 - style[METAL_FAR]) / (1.0 + far * far))
    red, green, blue, shine = _lit(
        style, solids, lamps, shaders, ANYWHERE, 1 << row, outside, normal, ray, METAL_GLOSS
    )
    shine = style[METAL_SHINE] * shine + sheen * mirror[0]
    return (
        solids[row, 6] * (share * mirror[0] + style[METAL_BODY] * red) + shine,
        solids[row, 7] * (share * mirror[1] + style[METAL_BODY] * green) + shine,
        solids[row, 8] * (share * mirror[2] + style[METAL_BODY] * blue) + shine,
    )


@compiled
def _shade(style, solids, lamps, shaders, tile, hit, start, ray):
    """Return red, green and blue at `hit` (see `first`), where a ray from `start` in direction `ray` ends."""
    if hit[1] >= 0 and solids[hit[1], 9] == METAL:
        return _metal(style, solids, lamps, shaders, hit, start, ray)
    return _matte(style, solids, lamps, shaders, tile, hit, start, ray)


@compiled
def _ray(axes, across, down):
    return unit(along(along(axes[2], axes[0], across), axes[1], down))


@compiled
def identify(rows, solids, masks, camera, axes):
    """Set each pixel of `rows`, (height, width) int8, to GROUND, SKY, or an object's index in `solids`."""
    height, width = masks.shape
    for line in range(height):
        for column in range(width):
            across, down = column + 0.5 - width / 2, line + 0.5 - height / 2
            if masks[line, column]:
                ray = _ray(axes, across, down)
                rows[line, column] = first(solids, masks[line, column], camera, ray)[1]
            else:
                rise = axes[2][2] + axes[0][2] * across + axes[1][2] * down
                rows[line, column] = GROUND if rise < 0.0 else SKY


@compiled
def find_shaders(shaders, solids, camera, axes, lamps, width, height):
    """Set `shaders`: for each tile of the image and each lamp, the solids that may hide the lamp."""
    every, tile = (1 << len(solids)) - 1, 0
    for m in range(len(lamps)):
        shaders[ANYWHERE, m] = every
    for top in range(0, height, TILE):
        for left in range(0, width, TILE):
            middle = _ground(camera, axes, left - width / 2 + TILE / 2, top - height / 2 + TILE / 2)
            radius = 0.0
            for corner in range(4):
                across, down = left - width / 2 + corner % 2 * TILE, top - height / 2 + corner // 2 * TILE
                aside = minus(_ground(camera, axes, across, down), middle)
                radius = max(radius, math.sqrt(dot(aside, aside)))
            for m in range(len(lamps)):
                gap = minus(lamps[m, CENTRE], middle)
                near = _between(solids, every, middle, radius, gap, dot(gap, gap)) if radius < 1.0 else every
                shaders[tile, m] = near
            tile += 1


@compiled
def _ground(camera, axes, across, down):
    """Return the ground's point at (`across`, `down`) of the image, very distant above the horizon."""
    ray = along(along(axes[2], axes[0], across), axes[1], down)
    return along(camera, ray, -camera[2] / min(ray[2], -NEAR))


@compiled
def paint(passes, style, solids, masks, shaders, camera, axes, lamps, curves):
    """Render an image twice, and write both results to `passes`, (2, height, width, 3) uint8.

    The first has one sample per pixel; the second, the final image, has 2 x 2 where neighbours differ.
    `curves`, (3, levels): tone curves (effects.py).
    """
    height, width = masks.shape
    for side in range(1, 3):
        for line in range(height):
            for column in range(width):
                if side == 1 or _uneven(passes, line, column):
                    _sample(
                        passes, style, solids, masks, shaders, camera, axes, lamps, curves, line, column, side
                    )
                else:
                    for channel in range(3):
                        passes[1, line, column, channel] = passes[0, line, column, channel]


@compiled
def _uneven(passes, line, column):
    """Return True if pixel (line, column) of passes[0] differs by more than CONTRAST from a neighbour."""
    height, width = passes.shape[1:3]
    for direction in range(4):
        near_line = min(max(line + (direction - 1) * (1 - direction % 2), 0), height - 1)
        near_column = min(max(column + (direction - 2) * (direction % 2), 0), width - 1)
        for channel in range(3):
            level, other = passes[0, line, column, channel], passes[0, near_line, near_column, channel]
            if max(level, other) - min(level, other) > CONTRAST:  # max first, because the bytes are unsigned
                return True
    return False


@compiled
def _sample(passes, style, solids, masks, shaders, camera, axes, lamps, curves, line, column, side):
    """Write a pixel to `passes[side - 1, line, column]`: the mean of `side` x `side` samples, in `curves`."""
    height, width = masks.shape
    tile = line // TILE * (-(-width // TILE)) + column // TILE
    red = green = blue = 0.0
    for sub in range(side * side):
        across = column - width / 2 + (sub % side + 0.5) / side
        down = line - height / 2 + (sub // side + 0.5) / side
        ray = _ray(axes, across, down)
        hit = first(solids, masks[line, column], camera, ray)
        colour = _shade(style, solids, lamps, shaders, tile, hit, camera, ray)
        red += min(colour[0], 1.0)
        green += min(colour[1], 1.0)
        blue += min(colour[2], 1.0)
    scale = (curves.shape[1] - 1) / (side * side)
    passes[side - 1, line, column, 0] = curves[0, int(red * scale + 0.5)]
    passes[side - 1, line, column, 1] = curves[1, int(green * scale + 0.5)]
    passes[side - 1, line, column, 2] = curves[2, int(blue * scale + 0.5)]
