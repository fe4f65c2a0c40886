"""Altered copies of training images, by which the distance of unfamiliar images is measured.

A `recompressed` copy shows the same scene: it is smaller, or was saved as JPEG. A `foreign` copy has other
light, another ground, another background or other objects, with random textures: the model was not
trained for it. No photographs are needed.
Images: uint8, (3, H, W), RGB. Inside this file: float, (H, W, 3), 0 to 255.
"""

from collections.abc import Callable

import cv2
import numpy as np

Image = np.ndarray
Random = np.random.Generator
QUALITY = (60, 96)  # of JPEG; the end is excluded
SMALLEST = 0.4  # smallest scale of a copy
OBJECTS = 4  # a foreign image has fewer objects than this
NEAR_GROUND = 45  # grey levels: pixels nearer to the median colour are ground


def recompressed(random: Random, image: Image) -> Image:
    """Return a copy that was scaled down and up again, or saved as JPEG, or both."""
    pixels = np.ascontiguousarray(image.transpose(1, 2, 0))
    height, width = pixels.shape[:2]
    scale, quality = random.uniform(SMALLEST, 1), int(random.integers(*QUALITY))
    is_scaled, is_compressed = [(True, False), (False, True), (True, True)][random.integers(3)]
    if is_scaled:
        size = max(1, round(width * scale)), max(1, round(height * scale))
        small = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
        pixels = cv2.resize(small, (width, height), interpolation=cv2.INTER_CUBIC)
    if is_compressed:
        bgr = np.ascontiguousarray(pixels[..., ::-1])
        _, data = cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, quality])
        pixels = np.asarray(cv2.imdecode(data, cv2.IMREAD_COLOR_RGB))
    return pixels.transpose(2, 0, 1)


def foreign(random: Random, image: Image) -> Image:
    """Return a copy with other light, ground or background, or a new image of random textures."""
    pixels = image.transpose(1, 2, 0).astype(float)
    kinds: list[Callable[[], Image]] = [
        lambda: _lit(random, pixels),
        lambda: _behind(random, _lit(random, pixels)),
        lambda: _on_ground(random, pixels),
        lambda: _with_objects(random, _behind(random, _on_ground(random, pixels))),
        lambda: _with_objects(random, _behind(random, _texture(random, *pixels.shape[:2]))),
    ]
    altered = kinds[random.integers(len(kinds))]()
    return np.clip(altered, 0, 255).astype(np.uint8).transpose(2, 0, 1)


def _lit(random: Random, pixels: Image) -> Image:
    """Return the image much darker or lighter, with other contrast and tint."""
    gain = random.uniform(0.15, 0.6) if random.random() < 0.5 else random.uniform(1.4, 2.5)
    tint, gamma = random.uniform(0.6, 1.4, 3), random.uniform(0.4, 2.2)
    return np.clip(pixels / 255 * gain * tint, 0, 1) ** gamma * 255


def _behind(random: Random, pixels: Image) -> Image:
    """Return the image with a wall of a random texture above a line."""
    height, width = pixels.shape[:2]
    y, x = np.mgrid[:height, :width].astype(float)
    line = random.uniform(0.1, 0.6) * height + random.uniform(-0.15, 0.15) * (x - width / 2)
    wall = np.clip((line - y) / random.uniform(1, 6) + 0.5, 0, 1)[..., None]
    return wall * _texture(random, height, width) + (1 - wall) * pixels


def _on_ground(random: Random, pixels: Image) -> Image:
    """Return the image with a random texture as its ground. The light of the ground stays."""
    ground = np.median(pixels.reshape(-1, 3), 0)
    share = np.clip((NEAR_GROUND - np.abs(pixels - ground).max(2)) / 15, 0, 1)[..., None]
    light = pixels.mean(2, keepdims=True) / max(1.0, float(ground.mean()))
    return share * _texture(random, *pixels.shape[:2]) * light + (1 - share) * pixels


def _with_objects(random: Random, pixels: Image) -> Image:
    """Return the image with a few objects of random shapes and textures, and their shadows."""
    pixels = pixels.copy()
    height, width = pixels.shape[:2]
    y, x = np.mgrid[:height, :width].astype(float)
    for _ in range(random.integers(1, OBJECTS)):
        size = random.uniform(0.04, 0.18) * width
        row, column = random.uniform(0.25, 0.95) * height, random.uniform(0.1, 0.9) * width
        angle, narrow = random.uniform(0, np.pi), random.uniform(0.3, 1)
        u = ((x - column) * np.cos(angle) + (y - row) * np.sin(angle)) / size
        v = ((y - row) * np.cos(angle) - (x - column) * np.sin(angle)) / size / narrow
        bumps = [random.uniform(-0.4, 0.4) / n * np.cos(n * np.arctan2(v, u)) for n in range(2, 7)]
        inside = (np.maximum(abs(u), abs(v)) if random.random() < 0.4 else np.hypot(u, v)) < 1 + sum(bumps)
        shadow = ((x - column) / 1.3) ** 2 + ((y - row - 0.6 * size) / 0.5) ** 2
        pixels *= 1 - random.uniform(0, 0.7) * np.exp(-shadow / size**2)[..., None]
        light = np.clip(1 + random.uniform(-0.5, 0.5) * u + random.uniform(-0.5, 0.5) * v, 0.15, 1.9)
        pixels[inside] = (_texture(random, height, width) * light[..., None])[inside]
    return pixels


def _texture(random: Random, height: int, width: int) -> Image:
    """Return a texture of two random colours: clouds, stripes, a chessboard, a gradient or marks."""
    y, x = np.mgrid[:height, :width].astype(float)
    angle, period = random.uniform(0, np.pi), random.uniform(0.01, 0.13) * width
    u, v = x * np.cos(angle) + y * np.sin(angle), y * np.cos(angle) - x * np.sin(angle)
    bends = _clouds(random, height, width, 3)
    kinds: list[Callable[[], Image]] = [
        lambda: 1 / (1 + np.exp(-random.uniform(0.5, 3) * bends)),
        lambda: 0.5 + 0.5 * np.sin(2 * np.pi * u / period + random.uniform(0, 6) * bends),
        lambda: (u // period + v // period) % 2,
        lambda: (u - u.min()) / max(1e-9, float(np.ptp(u))) * random.uniform(0, 1),
        lambda: (_clouds(random, height, width, 1.2) > random.uniform(0.3, 1.2)).astype(float),
    ]
    share = kinds[random.integers(len(kinds))]()[..., None]
    pixels = (1 - share) * _colour(random) + share * _colour(random)
    grain = _clouds(random, height, width, random.uniform(0.5, 2.5))[..., None]
    return np.clip(pixels * (1 + random.uniform(0, 0.25) * grain), 0, 255)


def _clouds(random: Random, height: int, width: int, steepness: float) -> Image:
    """Return noise whose power falls with the frequency, (H, W); mean 0, deviation 1."""
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None])
    frequency[0, 0] = np.inf
    spectrum = np.fft.rfft2(random.standard_normal((height, width))) * frequency ** (-steepness / 2)
    noise = np.fft.irfft2(spectrum, (height, width))
    return noise / max(1e-9, float(noise.std()))


def _colour(random: Random) -> Image:
    colour = random.uniform(0, 1, 3) ** random.uniform(0.5, 2)
    grey = colour.mean()
    return 255 * (grey + random.uniform(0, 1) * (colour - grey))
