"""Simulate a camera and a file format on an image: exposure, white balance, tone, blur, noise, JPEG."""

import io
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageFilter

from pipeline.config.dataset_params import Variation

LEVELS = 4096  # number of levels of linear light from 0 to 1


@dataclass(frozen=True)
class Effects:
    """Parameters of the effects on one image. They are written to scenes.json."""

    exposure: float  # factor of all light
    red: float  # white balance: factor of red
    blue: float  # white balance: factor of blue
    gamma: float  # exponent applied after the sRGB curve; a value above 1 darkens mid-tones
    blur: float  # standard deviation in pixels
    noise: float  # standard deviation in levels of 0 to 255
    seed: int  # seed of the noise
    quality: int  # JPEG quality; 0 for no JPEG compression


NONE = Effects(1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0, 0)


def draw(ranges: Variation | None, images: int, rng: np.random.Generator) -> list[Effects]:
    """Draw each image's effects uniformly from `ranges`; exposure and colours are the same in a scene."""
    if ranges is None:
        return [NONE] * images

    def between(ends: tuple[float, float]) -> float:
        return round(float(rng.uniform(*ends)), 4)

    exposure, gamma = between(ranges.exposure), between(ranges.gamma)
    red, blue = between(ranges.white_balance), between(ranges.white_balance)
    return [
        Effects(
            exposure=exposure,
            red=red,
            blue=blue,
            gamma=gamma,
            blur=between(ranges.blur),
            noise=between(ranges.noise),
            seed=int(rng.integers(2**31)),
            quality=int(rng.integers(ranges.jpeg[0], ranges.jpeg[1] + 1)),
        )
        for _ in range(images)
    ]


def curves(effects: Effects) -> np.ndarray:
    """Return the tone curves of red, green and blue, (3, LEVELS) uint8, by the level of linear light."""
    return _bytes_of(np.arange(LEVELS) / (LEVELS - 1), effects)


def _bytes_of(light: np.ndarray, effects: Effects) -> np.ndarray:
    """Return the bytes of red, green and blue, (3, n), for n levels of linear light from 0 to 1."""
    gains = effects.exposure * np.array([[effects.red], [1.0], [effects.blue]])
    light = np.minimum(gains * light, 1.0)
    srgb = np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)
    return np.rint(srgb**effects.gamma * 255).astype(np.uint8)


def retouch(pixels: np.ndarray, effects: Effects) -> np.ndarray:
    """Return a finished sRGB image (height, width, 3) uint8 with all effects."""
    srgb = np.arange(256) / 255
    light = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    tones = _bytes_of(light, effects)
    return develop(np.stack([tones[channel][pixels[..., channel]] for channel in range(3)], axis=-1), effects)


def develop(pixels: np.ndarray, effects: Effects) -> np.ndarray:
    """Return an image (height, width, 3) uint8 after blur, noise and JPEG compression, in this order."""
    image = Image.fromarray(pixels)
    if effects.blur > 0:
        image = image.filter(ImageFilter.GaussianBlur(effects.blur))
    if effects.noise > 0:
        noise = np.random.default_rng(effects.seed).standard_normal(pixels.shape, dtype=np.float32)
        noisy = np.asarray(image) + np.rint(noise * np.float32(effects.noise))
        image = Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))
    if effects.quality:
        file = io.BytesIO()
        image.save(file, "JPEG", quality=effects.quality)
        image = Image.open(file)
    return np.asarray(image)
