"""The ray tracer against a reference implementation by signed distances and ray marching."""

import math

import numpy as np
import pytest

from pipeline.tabletop import geometry, scene_sampling, scenes
from pipeline.tabletop.looks import CLEVR, STUDIO
from pipeline.tabletop.rendering import identify, render
from pipeline.tabletop.scenes import CAMERA, COLORS, LIGHTS, MATERIALS, SHAPES, SceneObject

WIDTH, HEIGHT = 96, 64
RADIUS = {"large": 0.7, "small": 0.35}


def make_object(shape="sphere", size="large", color="red", material="rubber", x=0.0, y=0.0, rotation=0.4):
    return SceneObject(0, size, color, material, shape, x, y, rotation)


def crowd(seed, count=6):
    """Return objects at random places; they may overlap."""
    rng = np.random.default_rng(seed)
    return tuple(
        make_object(
            SHAPES[rng.integers(3)],
            ("large", "small")[rng.integers(2)],
            tuple(COLORS)[rng.integers(8)],
            MATERIALS[rng.integers(2)],
            *rng.uniform(-2.5, 2.5, 2),
            rng.uniform(0, 6.28),
        )
        for _ in range(count)
    )


def signed_distance(t, points, look=STUDIO):
    """Return the distances of points (..., 3) to an object's surface; negative inside."""
    half = RADIUS[t.size] / (look.cube if t.shape == "cube" else 1)
    bevel = geometry.BEVEL * half if look.rounded and t.shape == "cube" else 0
    p = points - np.array([t.x, t.y, half])
    if t.shape == "sphere":
        return np.linalg.norm(p, axis=-1) - half
    if t.shape == "cylinder":
        q = np.stack([np.hypot(p[..., 0], p[..., 1]) - half, np.abs(p[..., 2]) - half], -1)
    else:
        turn = np.exp(-1j * t.rotation) * (p[..., 0] + 1j * p[..., 1])
        q = np.abs(np.stack([turn.real, turn.imag, p[..., 2]], -1)) - half + bevel
    return np.linalg.norm(np.maximum(q, 0), axis=-1) + np.minimum(q.max(-1), 0) - bevel


def march(objects, starts, ways, steps=300, look=STUDIO):
    """Return the distances at which rays hit an object (infinity: never), and the object's row."""
    distances = np.zeros(len(ways))
    for _ in range(steps):
        points = starts + distances[:, None] * ways
        gaps = np.stack([signed_distance(t, points, look) for t in objects])
        distances = np.minimum(distances + np.maximum(gaps.min(0), 0), 100.0)
    return np.where(gaps.min(0) < 1e-6, distances, np.inf), gaps.argmin(0)


def camera_rays(camera, width, height):
    """Return unit directions, (height * width, 3), through the pixels' centres."""
    forward = -np.array(camera) / np.linalg.norm(camera)
    right = np.cross(forward, [0, 0, 1])
    right /= np.linalg.norm(right)
    up = np.cross(right, forward)
    tangent = math.tan(math.radians(49.1) / 2) / (max(width, height) / 2)
    columns, lines = np.meshgrid(np.arange(width) + 0.5 - width / 2, np.arange(height) + 0.5 - height / 2)
    ways = forward + tangent * (columns[..., None] * right - lines[..., None] * up)
    return (ways / np.linalg.norm(ways, axis=-1, keepdims=True)).reshape(-1, 3)


def picture(objects, lights=LIGHTS, camera=CAMERA):
    return render(scenes.solids(objects), camera, lights, WIDTH, HEIGHT)


@pytest.mark.parametrize("seed", range(2))
def test_the_id_buffer_equals_ray_marching(seed):
    objects, camera = crowd(seed), scene_sampling.jittered(CAMERA, 1.0, np.random.default_rng(seed))
    rows = identify(scenes.solids(objects), camera, WIDTH, HEIGHT).ravel()
    ways = camera_rays(camera, WIDTH, HEIGHT)
    distances, nearest = march(objects, np.array(camera), ways)
    ground = np.where(ways[:, 2] < 0, -camera[2] / ways[:, 2], np.inf)
    expected = np.where(distances < ground, nearest, geometry.GROUND)
    assert (rows >= 0).mean() > 0.03
    # a ray that grazes an edge may end on either side of it
    assert (rows != expected).mean() < 0.001


CASES = [*((shape, STUDIO) for shape in SHAPES), ("cube", CLEVR)]


@pytest.mark.parametrize(("shape", "look"), CASES)
@pytest.mark.parametrize("size", ["large", "small"])
def test_rays_hit_where_marching_ends(shape, look, size):
    t = make_object(shape, size, x=0.3, y=-0.2, rotation=0.9)
    solids, rng = scenes.solids((t,), look), np.random.default_rng(0)
    starts = rng.normal(size=(400, 3)) * 2 + [0, 0, 0.5]
    starts = starts[signed_distance(t, starts, look) > 0.05]
    half = t.half_height(look)
    ways = np.array([t.x, t.y, half]) + rng.normal(size=starts.shape) * half - starts
    ways /= np.linalg.norm(ways, axis=1, keepdims=True)
    marched, _ = march((t,), starts, ways, look=look)
    struck = [
        geometry.strike(solids, 0, tuple(start), tuple(way)) for start, way in zip(starts, ways, strict=True)
    ]
    found = np.array([distance for distance, _ in struck])
    assert 0.2 < np.isfinite(found).mean() < 0.9
    assert (np.isfinite(found) == np.isfinite(marched)).mean() > 0.99
    both = np.isfinite(found) & np.isfinite(marched)
    apart = np.abs(found[both] - marched[both])
    assert apart.max() < 1e-3
    assert np.median(apart) < 1e-8
    for at in np.flatnonzero(both):  # normals are the gradient of the distance
        point, face = starts[at] + found[at] * ways[at], struck[at][1]
        normal = np.array(geometry.normal_at(solids, 0, face, tuple(point)))
        assert abs(np.linalg.norm(normal) - 1) < 1e-9
        assert abs(signed_distance(t, point + 0.01 * normal, look) - 0.01) < 1e-4


@pytest.mark.parametrize("shape", SHAPES)
def test_rubber_has_its_colour(shape):
    """The mean chroma of an object is nearest to its own colour's chroma among all eight."""

    def chroma(rgb):
        rgb = np.asarray(rgb, dtype=float) + 1e-9
        return np.append(rgb / rgb.sum(), rgb.max() / 510)

    for color in COLORS:
        t = make_object(shape, color=color)
        shown = picture((t,))[identify(scenes.solids((t,)), CAMERA, WIDTH, HEIGHT) == 0].mean(0)
        nearest = min(COLORS, key=lambda name: np.linalg.norm(chroma(COLORS[name]) - chroma(shown)))
        assert nearest == color


def test_metal_mirrors_its_neighbours_and_rubber_does_not():
    near = make_object(color="red", x=1.3, y=-1.3, size="small")
    redder = {}
    for material in MATERIALS:
        ball = make_object(material=material, color="gray")
        rows = identify(scenes.solids((ball, near)), CAMERA, WIDTH, HEIGHT)
        alone, together = picture((ball,)).astype(int), picture((ball, near)).astype(int)
        gain = (together[..., 0] - together[..., 1]) - (alone[..., 0] - alone[..., 1])
        redder[material] = gain[rows == 0].max()
    assert redder["metal"] > 20
    assert redder["rubber"] < 5


def test_equal_scenes_have_equal_bytes():
    objects = crowd(2)
    assert picture(objects).tobytes() == picture(objects).tobytes()
    moved = (LIGHTS[0], LIGHTS[1], (LIGHTS[2][0] + 0.2, *LIGHTS[2][1:]))
    assert picture(objects).tobytes() != picture(objects, lights=moved).tobytes()
    assert picture(objects).tobytes() != picture(objects, camera=(7.4, -6.5, 5.3)).tobytes()
