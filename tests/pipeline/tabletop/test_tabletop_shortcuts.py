"""The ray tracer's shortcuts give the results of the plain computation."""

import itertools

import numpy as np
import pytest

from pipeline.tabletop import effects, geometry, raytracer, rendering, scene_sampling, scenes
from pipeline.tabletop.looks import STUDIO
from pipeline.tabletop.scenes import CAMERA, LIGHTS, SHAPES
from tests.pipeline.tabletop.test_tabletop_raytracer import camera_rays, crowd, make_object

WIDTH, HEIGHT = 100, 70  # no whole tiles


def kernel_inputs(seed):
    """Return the arguments of the kernels for a crowd of objects."""
    camera = scene_sampling.jittered(CAMERA, 1.0, np.random.default_rng(seed))
    seen = rendering._seen(scenes.solids(crowd(seed)), camera, WIDTH, HEIGHT)
    tiles = -(-WIDTH // raytracer.TILE) * -(-HEIGHT // raytracer.TILE)
    return *seen, rendering.lamp_table(LIGHTS), np.empty((tiles + 1, len(LIGHTS)), dtype=np.int64)


def painted(solids, masks, camera, axes, lamps, shaders):
    passes = np.zeros((2, HEIGHT, WIDTH, 3), dtype=np.uint8)
    tones = effects.curves(effects.NONE)
    raytracer.paint(passes, STUDIO.style, solids, masks, shaders, camera, axes, lamps, tones)
    return passes


def visible(solids, lamp, point):
    gap = lamp[raytracer.CENTRE] - point
    every = (1 << len(solids)) - 1
    return raytracer._visible(solids, every, lamp, tuple(point), tuple(gap), gap @ gap)


@pytest.mark.parametrize("shape", SHAPES)
def test_an_object_blocks_the_segments_on_which_a_ray_strikes_it(shape):
    solids, rng = scenes.solids((make_object(shape, x=0.3, y=-0.2, rotation=0.9),)), np.random.default_rng(1)
    starts, ends = rng.uniform(-2, 2, (2, 4000, 3))
    outside = np.linalg.norm(starts - solids[0, 1:4], axis=1) > solids[0, 3] * 1.75
    found = []
    for start, gap in zip(starts[outside], (ends - starts)[outside], strict=True):
        length = np.linalg.norm(gap)
        struck = geometry.strike(solids, 0, tuple(start), tuple(gap / length))[0] < length
        found.append((struck, geometry.blocks(solids, 0, tuple(start), tuple(gap))))
    struck, blocked = np.transpose(found)
    assert 0.02 < struck.mean() < 0.5
    assert (struck == blocked).all()


@pytest.mark.parametrize("seed", range(2))
def test_few_solids_hide_a_lamp_as_all_do(seed):
    """The visible share of a lamp equals the share over all its points and all objects."""
    solids, _, _, _, lamps, _ = kernel_inputs(seed)
    shares = []
    for point, lamp in itertools.product(np.random.default_rng(seed).uniform(-3, 3, (300, 2)), lamps):
        at = (*point, 0.0)
        places = [
            not any(geometry.blocks(solids, k, at, tuple(place - at)) for k in range(len(solids)))
            for place in lamp[: raytracer.PLACES]
        ]
        corners = np.mean(places[:4])
        shares.append(visible(solids, lamp, at))
        assert shares[-1] == (corners if corners in (0, 1) else np.mean(places))
    assert sum(0 < share < 1 for share in shares) > 20


@pytest.mark.parametrize("camera", [CAMERA, (7.0, -6.0, 1.5)])
def test_the_id_buffer_with_masks_equals_that_without(camera):
    solids, masks, place, axes = rendering._seen(scenes.solids(crowd(2)), camera, WIDTH, HEIGHT)
    rows, every = np.empty((2, HEIGHT, WIDTH), dtype=np.int8)
    raytracer.identify(rows, solids, masks, place, axes)
    raytracer.identify(every, solids, np.full_like(masks, (1 << len(solids)) - 1), place, axes)
    assert (rows == every).all()
    assert (masks == 0).any()
    above = camera_rays(camera, WIDTH, HEIGHT)[:, 2].reshape(HEIGHT, WIDTH) >= 0
    assert ((rows == geometry.SKY) == (above & (rows < 0))).all()
    assert above.any() == (camera != CAMERA)


@pytest.mark.parametrize("seed", range(2))
def test_only_pixels_unlike_a_neighbour_are_sampled_again(seed):
    *inputs, shaders = kernel_inputs(seed)
    shaders[:] = (1 << len(inputs[0])) - 1
    once, picture = painted(*inputs, shaders)
    levels = np.pad(once.astype(int), ((1, 1), (1, 1), (0, 0)), mode="edge")
    middle = levels[1:-1, 1:-1]
    beside = (levels[:-2, 1:-1], levels[2:, 1:-1], levels[1:-1, :-2], levels[1:-1, 2:])
    uneven = np.max([np.abs(middle - other) for other in beside], axis=(0, 3)) > raytracer.CONTRAST
    assert 0.02 < uneven.mean() < 0.3
    assert (picture[~uneven] == once[~uneven]).all()
    assert (picture[uneven] != once[uneven]).any(-1).mean() > 0.5


def test_kernels_compile_where_no_cache_can_be_written(monkeypatch):
    real = geometry.njit

    def refuse(*, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return real(**options)

    monkeypatch.setattr(geometry, "njit", refuse)
    assert geometry.compiled(lambda a: a + 1)(1) == 2
