"""Compare pairs with the sizes of their images: boxes that leave an image, pairs of two shapes, tiny images.

A box that does not fit its image is an error. The other faults are notes, because published datasets have
such pairs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from pipeline.datasets import image_headers
from pipeline.datasets.image_headers import Header
from pipeline.datasets.schema import NO_CHANGE, Box, Pair, images_of
from pipeline.io.errors import listed

ROUNDING = 0.5  # pixels by which a box may leave its image
SHAPES = 0.01  # relative difference of two aspect ratios that counts as two shapes
SMALLEST = 8  # pixels: an image with a shorter side is named
SIDES = ("before", "after")
Boxed = tuple[Pair, str, Box, Header]
"""A pair, "before" or "after", and the box on this side with the header of its image."""


def box_faults(root: Path, pairs: Iterable[Pair]) -> tuple[list[tuple[Pair, str]], str]:
    """Return the boxes that do not fit their images, (pair, message), and advice on all of them or "".

    An image without a readable header is skipped.
    """
    boxed = list(_boxed(root, list(pairs)))
    faults = [
        (pair, f"{side}_box {fault}")
        for pair, side, box, header in boxed
        if (fault := _fault(box, header)) is not None
    ]
    if not faults or not all(_fits_as_corners(box, header) for *_, box, header in boxed):
        return faults, ""
    return faults, (
        f"; {len({id(pair) for pair, _ in faults})} pair(s) have a box beyond the image, and all "
        f"{len(boxed)} boxes fit as corners (x1 y1 x2 y2): write each as x y width height"
    )


def check_boxes(root: Path, pairs: Iterable[Pair]) -> None:
    """Raise InputError that names each pair with a box that does not fit its image."""
    faults, advice = box_faults(root, pairs)
    if faults:
        problems = [f"{pair.pair_id}: {fault}" for pair, fault in faults]
        raise listed(problems, str(root), f"correct these boxes in the annotation files{advice}")


def _boxed(root: Path, pairs: Sequence[Pair]) -> Iterator[Boxed]:
    boxes = [
        (pair, side, name, box)
        for pair in pairs
        for side, name, box in zip(
            SIDES, (pair.before, pair.after), (pair.before_box, pair.after_box), strict=True
        )
        if box is not None
    ]
    headers = image_headers.read_all(root, [name for _, _, name, _ in boxes])
    for pair, side, name, box in boxes:
        if name in headers:
            yield pair, side, box, headers[name]


def _fault(box: Box, image: Header) -> str | None:
    x, y, width, height = box
    if min(width, height) <= 0:
        return f"has the size {width:g} x {height:g}: write x y width height in pixels"
    if min(x, y) < -ROUNDING:
        return f"begins at {min(x, y):g}, outside the image: write x y width height in pixels"
    if max(box) <= 1:
        return f"has no number above 1 ({_text(box)}): write pixels, not shares of the image's size"
    for start, size, length, word in ((x, width, image.width, "wide"), (y, height, image.height, "high")):
        if start + size > length + ROUNDING:
            turned = f", stored with EXIF orientation {image.orientation}" if image.orientation > 4 else ""
            return f"ends at {start + size:g}, and the image is {length} {word}{turned}: x y width height?"
    return None


def _fits_as_corners(box: Box, image: Header) -> bool:
    left, top, right, bottom = box
    return max(box) > 1 and left < right <= image.width + ROUNDING and top < bottom <= image.height + ROUNDING


def _text(box: Box) -> str:
    return " ".join(f"{number:g}" for number in box)


def notes(root: Path, pairs: Sequence[Pair]) -> list[str]:
    """Return a line for each kind of pairs that are probably wrong, with their number and an example.

    The kinds: two images of different shapes (width : height), or of different EXIF orientations; the same
        file twice, unless the pair is unchanged; an image with a side below SMALLEST pixels.
    """
    headers = image_headers.read_all(root, images_of(pairs), "measuring")
    shapes, turned = [], []
    for pair in pairs:
        if (before := headers.get(pair.before)) and (after := headers.get(pair.after)):
            if _differ(before, after):
                shapes.append(f"{pair.before} ({before}) and {pair.after} ({after})")
            elif before.orientation != after.orientation:
                sides = f"{pair.before} ({before.orientation}) and {pair.after} ({after.orientation})"
                turned.append(sides)
    same = [pair.before for pair in pairs if pair.before == pair.after and pair.change_type != NO_CHANGE]
    lines = {
        "pairs have images of two shapes": shapes,
        "pairs have images of two EXIF orientations": turned,
        "pairs have one file as before and after": same,
        f"images have a side below {SMALLEST} pixels": _tiny(headers),
    }
    return [
        f"{len(examples):,} {kind}, such as {examples[0]}" for kind, examples in lines.items() if examples
    ]


def _differ(before: Header, after: Header) -> bool:
    first, second = before.width * after.height, after.width * before.height
    return abs(first - second) > SHAPES * max(first, second)


def _tiny(headers: Mapping[str, Header]) -> list[str]:
    return [
        f"{name} ({image})" for name, image in headers.items() if min(image.width, image.height) < SMALLEST
    ]
