"""Where a model looked, drawn on both pictures: a row a word, for a file to show to others."""

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from pipeline.decoding.attention_maps import Attended

WIDTH, ROW, LABEL, GAP = 240, 180, 110, 8  # pixels: of a picture, at most of a row, of the word, between them
HEAT = (220, 30, 30)
STRONGEST = 0.7  # how much of the heat covers the cell that was looked at most


def drawn(before: Image.Image, after: Image.Image, attended: Attended) -> Image.Image:
    """One picture: a row for each word, with its map, or each picture's own, on before and after."""
    small = [_thumbnail(picture) for picture in (before, after)]
    height = max(picture.height for picture in small)
    rows = max(1, len(attended.words))
    sheet = Image.new("RGB", (LABEL + 2 * (WIDTH + GAP), rows * (height + GAP)), "white")
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(16)
    looked = [attended.on(side) for side in (0, 1)]
    for row, word in enumerate(attended.words):
        top = row * (height + GAP)
        pen.text((GAP, top + height // 2 - 8), word[:12], fill="black", font=font)
        for column, (picture, maps) in enumerate(zip(small, looked, strict=True)):
            shown = picture if maps is None else heated(picture, maps[row])
            sheet.paste(shown, (LABEL + column * (WIDTH + GAP), top))
    return sheet


def heated(picture: Image.Image, map_: np.ndarray) -> Image.Image:
    """A picture with a map of shares, H x W, over it: its largest value is the strongest."""
    mask = Image.fromarray(opacities(map_, 255 * STRONGEST)).resize(picture.size, Image.Resampling.BICUBIC)
    return Image.composite(Image.new("RGB", picture.size, HEAT), picture, mask)


def opacities(map_: np.ndarray, strongest: float) -> np.ndarray:
    """uint8, H x W: `strongest` where a map of shares is largest."""
    shares = np.asarray(map_, dtype=np.float32)
    return np.rint(strongest * shares / max(float(shares.max()), 1e-9)).astype(np.uint8)


def _thumbnail(picture: Image.Image) -> Image.Image:
    """WIDTH wide, or as high as a row: very tall pictures are squashed into it, as the model sees them."""
    height = min(ROW, max(1, round(picture.height * WIDTH / picture.width)))
    return picture.resize((WIDTH, height), Image.Resampling.BICUBIC)
