"""Effects of a camera and a file format on an image: exposure, white balance, tone, blur, noise, JPEG."""

import io
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageFilter

from pipeline.config.dataset_params import Variation

LEVELS = 4096  # of linear light, 0 to 1


@dataclass(frozen=True)
class Effects:
    """Effects of one image, as recorded in scenes.json."""

    exposure: float  # factor of the light
    red: float  # white balance: factors of red and blue
    blue: float
    gamma: float  # exponent of the tone curve after sRGB's: above 1 darkens mid-tones
    blur: float  # standard deviation, pixels
    noise: float  # standard deviation, levels of 255
    seed: int  # of the noise
    quality: int  # of the JPEG; 0: no JPEG


NONE = Effects(1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0, 0)


def draw(ranges: Variation, images: int, rng: np.random.Generator) -> list[Effects]:
    """Draw the effects of a scene's images uniformly from their ranges.

    The images of a scene share exposure, white balance and tone curve, as if taken by one camera. (The mean
    brightness of the two images of a real CLEVR-Change pair differs by 1.5 %.) Blur, noise and JPEG are drawn
    for each image.
    """

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
    """Return the bytes of red, green and blue at evenly spaced levels of linear light, (3, LEVELS) uint8.

    It is a table because a power per channel and pixel is slow.
    """
    gains = effects.exposure * np.array([[effects.red], [1.0], [effects.blue]])
    light = np.minimum(gains * (np.arange(LEVELS) / (LEVELS - 1)), 1.0)
    srgb = np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)
    return np.rint(srgb**effects.gamma * 255).astype(np.uint8)


def develop(pixels: np.ndarray, effects: Effects) -> np.ndarray:
    """Apply blur, noise and JPEG, in this order, to an image (height, width, 3) uint8."""
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
