"""Draw a caption's attention maps over the two images, as a single image with a row per word.

H, W: rows and columns of the grid of cells.
"""

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from pipeline.decoding.attention_maps import Attended

WIDTH, ROW, LABEL, GAP = 240, 180, 110, 8  # pixels: image width, greatest row height, word column, gap
HEAT = (220, 30, 30)
STRONGEST = 0.7  # opacity at the cell with the most attention


def drawn(before: Image.Image, after: Image.Image, attended: Attended) -> Image.Image:
    """Return an image with a row per word: the word's attention over each of the two images."""
    thumbnails = [_thumbnail(image) for image in (before, after)]
    height = max(image.height for image in thumbnails)
    rows = max(1, len(attended.words))
    sheet = Image.new("RGB", (LABEL + 2 * (WIDTH + GAP), rows * (height + GAP)), "white")
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(16)
    maps_of_images = [attended.on(side) for side in (0, 1)]
    for row, word in enumerate(attended.words):
        top = row * (height + GAP)
        pen.text((GAP, top + height // 2 - 8), word[:12], fill="black", font=font)
        for column, (image, maps) in enumerate(zip(thumbnails, maps_of_images, strict=True)):
            drawn_image = image if maps is None else heated(image, maps[row])
            sheet.paste(drawn_image, (LABEL + column * (WIDTH + GAP), top))
    return sheet


def heated(image: Image.Image, map_: np.ndarray) -> Image.Image:
    """Return the image with an attention map (H, W) drawn over it. Larger values are more opaque."""
    mask = Image.fromarray(opacities(map_, 255 * STRONGEST)).resize(image.size, Image.Resampling.BICUBIC)
    return Image.composite(Image.new("RGB", image.size, HEAT), image, mask)


def opacities(map_: np.ndarray, strongest: float) -> np.ndarray:
    """Return the opacities, uint8 (H, W), of an attention map. The largest value becomes `strongest`."""
    shares = np.asarray(map_, dtype=np.float32)
    return np.rint(strongest * shares / max(float(shares.max()), 1e-9)).astype(np.uint8)


def _thumbnail(image: Image.Image) -> Image.Image:
    height = min(ROW, max(1, round(image.height * WIDTH / image.width)))
    return image.resize((WIDTH, height), Image.Resampling.BICUBIC)
