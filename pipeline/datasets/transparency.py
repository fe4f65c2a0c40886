"""Lay transparent images over white, and notice a fourth channel that is no transparency.

Programs also store other data in the fourth channel: nothing at all (0 everywhere, as in many screenshots),
infrared light, or depth. Composited over white, such an image would be wrong without a message.
"""

import numpy as np
from PIL import Image

from pipeline.io.errors import InputError

VISIBLE = 16  # alpha, from 0 to 255: an image with lower values only is white to the eye
SPECKS = 0.001  # share of visible pixels below which an image with other colours underneath is refused
PARTIAL = 0.5  # share of the pixels that are neither transparent nor opaque
LEVELS = 8  # different values of such pixels: a layer of constant opacity has 1, soft edges cover few pixels
REMEDY = "remove the channel (magick IN -alpha off OUT.png), or flatten it (magick IN -flatten OUT.png)"


def over_white(image: Image.Image, name: str) -> Image.Image:
    """Return an RGBA image composited over white; the colours, if no pixel is visible.

    Refused are fully transparent images of one colour, and a fourth channel that is no transparency: it hides
    nearly all of an image, or most pixels are partly transparent, with many different values.
    """
    counts = image.getchannel("A").histogram()
    pixels = image.width * image.height
    visible, partial = sum(counts[VISIBLE:]), counts[1:255]
    if not visible and _hides_colours(image):
        return image.convert("RGB")
    if not visible:
        raise InputError(f"{name} is transparent everywhere, and has a single colour; replace the file")
    if visible < SPECKS * pixels and _hides_colours(image):
        raise InputError(
            f"{name} has a fourth channel that hides all but {visible} of {pixels:,} pixels; {REMEDY}"
        )
    if sum(partial) > PARTIAL * pixels and sum(map(bool, partial)) > LEVELS:
        raise InputError(
            f"{name} has a fourth channel that is no transparency: {sum(partial) / pixels:.0%} of its pixels "
            f"are partly transparent, with {sum(map(bool, partial))} different values; {REMEDY}"
        )
    white = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(white, image).convert("RGB")


def _hides_colours(image: Image.Image) -> bool:
    """Return True if the invisible pixels of an RGBA image have more than one colour."""
    values = np.asarray(image)
    hidden = values[..., :3][values[..., 3] < VISIBLE]
    return bool((hidden != hidden[0]).any())
