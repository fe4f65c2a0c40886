"""Check the tags of TIFF files, because Pillow decodes some kinds of TIFF to wrong colours."""

from collections.abc import Mapping
from typing import Any

from pipeline.io.errors import InputError

BITS, PHOTOMETRIC, SAMPLES, PLANAR, EXTRA, SAMPLE_FORMAT = 258, 262, 277, 284, 338, 339  # numbers of tags
WHITE_IS_ZERO, BLACK_IS_ZERO, RGB, PALETTE, CMYK, YCBCR = 0, 1, 2, 3, 5, 6
DEPTHS = {
    WHITE_IS_ZERO: {1, 2, 4, 8},
    BLACK_IS_ZERO: {1, 2, 4, 8, 16},
    RGB: {8, 16},
    PALETTE: {1, 2, 4, 8},
    CMYK: {8, 16},
    YCBCR: {8},
}
"""Colours (PhotometricInterpretation) that are read -> numbers of bits per band that are read."""
UNSIGNED = 1
ALPHA = (1, 2)  # kinds of an extra band that is alpha: premultiplied or not
PLANES = 2  # value of PLANAR: each band is stored separately
CONVERT = (
    "convert it to 8-bit RGB: gdal_translate -ot Byte -scale LOWEST HIGHEST 0 255 IN.tif OUT.png, with the "
    "same LOWEST and HIGHEST for all images"
)


def check(tags: Mapping[int, Any], name: str) -> None:
    """Raise InputError if Pillow does not decode a TIFF's pixels correctly. `tags`: the image's `tag_v2`."""
    colours, bands = tags.get(PHOTOMETRIC, WHITE_IS_ZERO), tags.get(SAMPLES, 1)
    bits = set(tags.get(BITS, (1,)))
    # Pillow divides the colours by a separately stored band that is alpha, or that has no kind
    has_untyped_band = colours == RGB and bands > 3 + len(tags.get(EXTRA, ()))
    has_alpha_band = colours != RGB and has_alpha(tags)
    if (
        not bits <= DEPTHS.get(colours, set())
        or set(tags.get(SAMPLE_FORMAT, (UNSIGNED,))) != {UNSIGNED}
        or (tags.get(PLANAR) == PLANES and (has_untyped_band or has_alpha_band))
    ):
        depth = "/".join(map(str, sorted(bits)))
        raise InputError(
            f"{name} is a TIFF that is not read: {bands} band(s) of {depth} bits, "
            f"PhotometricInterpretation {colours}; {CONVERT}"
        )


def has_alpha(tags: Mapping[int, Any]) -> bool:
    """Return True if the first extra band is alpha by its tag; Pillow takes any fourth band as alpha."""
    return tags.get(EXTRA, (0,))[0] in ALPHA
