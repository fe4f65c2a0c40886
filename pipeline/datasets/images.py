"""Decode image files safely, convert all to 8-bit RGB by the same rules, and write an index of the files."""

import hashlib
import io
import os
import re
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image, TiffImagePlugin, UnidentifiedImageError

from pipeline.datasets import tiff_tags
from pipeline.datasets.bare_images import Bare, bare
from pipeline.io import content_hashes, inputs
from pipeline.io.errors import InputError, listed
from pipeline.io.outputs import write_json_lines
from pipeline.io.prefetch import prefetch
from pipeline.io.progress import track
from pipeline.io.records import read_records

FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "PPM")
"""Formats that are decoded. The content of a file decides its format.

Pillow's other formats are excluded: to decode an EPS file, Pillow would start Ghostscript.
"""
MOST_PIXELS = 89_478_485  # above this limit Pillow only warns; Pillow refuses twice as many pixels
LARGE = 1 << 24  # pixels: larger images are decoded one at a time
LOW = 256  # 16-bit values below this have a high byte of 0
MOST_SCANS = 100  # maximum number of scans of a JPEG, as in libtiff; encoders write about ten
MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBX", "RGBA", "RGBa", "CMYK", "YCbCr")
"""Pillow's modes that are converted to RGB."""
END_OF_PNG = b"IEND\xaeB`\x82"  # name and CRC of the last chunk
SCALED = (
    "Image.fromarray((255 * (numpy.asarray(IMAGE) / LARGEST)).astype('uint8')), with the same LARGEST for "
    "all images"
)
"""Python code for error messages: it converts an image in memory to 8 bits."""
TURNED = "orientation"
"""Key of the EXIF orientation, 2 to 8, in the `info` of a decoded image; absent for an upright image."""
HEIC = (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1")
NOT_READ = {
    **{b"ftyp" + brand: "a HEIC picture" for brand in HEIC},
    **{b"ftyp" + brand: "an AVIF picture" for brand in (b"avif", b"avis")},
    b"ion http": "a pointer of Git LFS (run `git lfs pull`)",
    b"JXL \r\n\x87\n": "a JPEG XL picture",
    b"jP  \r\n\x87\n": "a JPEG 2000 picture",
}
"""Kinds of files that are recognised but not read: bytes 4 to 12 of the file -> kind."""
OTHER_DEPTH = "names a transparent colour in other than 8 bits; convert it to 8-bit RGB"
SHOWN = 20  # an error names at most this many broken images
REMEDY = "run `dvc repro prepare` to make it"
_QUIET = ("ignore", None, Warning, re.compile(r"PIL\."), 0)
_LOCK = threading.Lock()
_LARGE = threading.Lock()


@dataclass(frozen=True, slots=True)
class Indexed:
    """Index entry of an image file: its size and hash when the dataset was prepared."""

    name: str  # relative to the dataset's root
    width: int  # pixels; boxes refer to them
    height: int
    bytes: int
    sha256: str


# use libtiff for uncompressed files too: Pillow's own reader mixes up planar bands of 16 bits
TiffImagePlugin.READ_LIBTIFF = True


def decode(data: bytes, name: str) -> Image.Image:
    """Decode a file's bytes to an RGB image of 8 bits per channel; the extension does not matter.

    - Only the first frame of an animation (GIF, PNG, WebP) and the first page of a TIFF are read.
    - Transparency (of pixels, a palette or one transparent colour) is composited over white. An extra band of
      a TIFF is alpha only if the file says so. Other extra bands, such as infrared, are dropped.
    - 16-bit values keep their high byte, as in OpenCV and Pillow. The scale depends only on the file's depth,
      never on the image's values, so both images of a pair have the same scale. A 16-bit grey image is
      refused if it uses only the low byte, because it would become black. A TIFF of 32 bits is refused,
      because its scale is unknown.
    - CMYK becomes R = (255 - C)(255 - K) / 255, and G and B likewise. In a JPEG the values are inverted
      (Adobe's convention, which Pillow follows with or without Adobe's marker).
    - Orientation (EXIF, TIFF), colour profiles and gamma are NOT applied, because boxes are in pixels of the
      file, and because published features were computed without them (by scipy.misc and others that use
      Pillow). The orientation is in the returned image's `info`, under the key TURNED.

    Raises InputError naming the file if it is empty, damaged or of an unsupported format. Raises the same
    error if the image has no pixels, more than MOST_PIXELS pixels (checked before decoding), more than
    MOST_SCANS scans, or pixels of an unsupported kind.
    """
    if not data:
        raise InputError(f"{name} is empty (0 bytes); replace the file")
    _hush()
    with _named(name):
        file = bare(data)
    if kind := NOT_READ.get(data[4:12]):
        raise InputError(f"{name} is {kind}, which is not read; convert it to PNG")
    if file.tags:
        _check_tags(file.tags, name)
    with _named(name, file):
        image = Image.open(io.BytesIO(file.data), formats=FORMATS)
        _check_size(image)
        if file.scans > MOST_SCANS:
            raise ValueError(f"it has more than {MOST_SCANS} scans")
    if image.format == "PNG" and END_OF_PNG not in data:  # Pillow accepts such a file
        raise InputError(f"{name} does not open (image file is truncated: no end mark); replace the file")
    rgb = converted(image, name)
    rgb.info = {TURNED: file.orientation} if file.orientation > 1 else {}
    return rgb


def converted(image: Image.Image, name: str) -> Image.Image:
    """Convert an image that Pillow has opened, or that is in memory, to RGB.

    The rules and the errors are those of `decode`.
    """
    opaque = False
    _hush()
    if isinstance(image, TiffImagePlugin.TiffImageFile):
        tags = tiff_tags.of_pillow(image.tag_v2)
        opaque = tags.opaque
        _check_tags(tags, name)
        image.getexif()[tiff_tags.ORIENTATION] = 1  # Pillow would apply an orientation, but only for TIFF
    with _named(name):
        _check_size(image)
    # large images are decoded one at a time: files of a few kilobytes in many threads could fill the memory
    with _LARGE if image.width * image.height > LARGE else nullcontext():
        return _rgb(image, name, opaque)


def _check_tags(tags: tiff_tags.Tags, name: str) -> None:
    if fault := tags.fault():
        raise InputError(f"{name} is a TIFF with {fault}: {tags.described()}")


def _check_size(image: Image.Image) -> None:
    if image.width * image.height > MOST_PIXELS:
        raise Image.DecompressionBombError
    if not image.width or not image.height:
        raise ValueError("it has no pixels")


def _rgb(image: Image.Image, name: str, opaque: bool) -> Image.Image:
    """Convert an image to RGB. If `opaque` is true, its transparency is ignored.

    The conversion needs up to 16 bytes of memory per pixel.
    """
    tile = getattr(image, "tile", None)
    raw = tile[0].args if tile else image.mode  # Pillow's name for the pixel layout in the file
    with _named(name):
        image.load()
    png = image.format == "PNG"
    if image.mode == "F":
        raise InputError(
            f"{name} has floating-point numbers of 32 bits, whose scale is unknown; convert it: {SCALED}"
        )
    if image.mode.startswith("I"):
        image = _high_byte(image, name)
    if image.mode not in MODES:
        raise InputError(f"{name} has pixels of the kind {image.mode}; convert it to 8-bit RGB")
    if opaque or not image.has_transparency_data:
        return image.convert("RGB")
    if png and image.mode in ("1", "L", "RGB") and raw not in ("L", "RGB"):
        # Pillow compares the transparent colour, which has the file's depth, with pixels of 8 bits
        raise InputError(f"{name} {OTHER_DEPTH}")
    white = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(white, image.convert("RGBA")).convert("RGB")


def _hush() -> None:
    """Silence Pillow's warnings permanently. (warnings.catch_warnings is not safe in threads.)"""
    with _LOCK:
        if _QUIET not in warnings.filters:
            warnings.filterwarnings("ignore", module=r"PIL\.")


@contextmanager
def _named(name: str, file: Bare | None = None) -> Iterator[None]:
    """Turn every error in the `with` block into an InputError that names the file."""
    try:
        yield
    except Image.DecompressionBombError:
        raise InputError(f"{name} has more than {MOST_PIXELS:,} pixels; scale it down") from None
    except UnidentifiedImageError:
        if file and file.tags:
            raise InputError(f"{name} is a TIFF that is not read: {file.tags.described()}") from None
        kinds = ", ".join(FORMATS)
        raise InputError(f"{name} is no image with pixels ({kinds}); replace the file") from None
    except Exception as error:  # Pillow raises any exception on damaged files
        reason = str(error) or type(error).__name__
        raise InputError(f"{name} does not open ({reason}); replace the file") from None


def _high_byte(image: Image.Image, name: str) -> Image.Image:
    """Convert a 16-bit grey image to 8-bit grey. Pillow may store the 16-bit values in 32 bits."""
    if "transparency" in image.info:
        raise InputError(f"{name} {OTHER_DEPTH}")
    values = np.asarray(image)
    if values.min() < 0 or values.max() > 0xFFFF:
        raise InputError(f"{name} has pixels beyond 16 bits; convert it: {SCALED}")
    if 0 < values.max() < LOW:
        raise InputError(
            f"{name} has 16 bits, but no value above {values.max()}: it would be black; convert it: {SCALED}"
        )
    return Image.fromarray((values >> 8).astype(np.uint8))


def read_bytes(path: Path) -> bytes:
    """Return a file's bytes. Raises InputError for a file that is missing or not regular."""
    try:
        return inputs.read_bytes(path)
    except (OSError, ValueError) as error:  # ValueError: a name with a null byte
        reason = getattr(error, "strerror", error)
        raise InputError(f"{path} cannot be read ({reason}); put the file there") from None


def index(root: Path, names: list[str]) -> Iterator[Indexed]:
    """Decode and hash every image, and yield the index entries in the order of `names`.

    Only a few images are in memory at a time. After the last image, InputError is raised if images are
    missing or broken. The message has their number and names the first ones.
    """
    first: list[str] = []
    count = 0
    threads = os.cpu_count() or 1
    seen = prefetch(partial(_inspect, root), names, threads, 4 * threads)
    for result in track(seen, "checking", "images", len(names)):
        if isinstance(result, Indexed):
            yield result
        else:
            count += 1
            first += [result] * (count <= SHOWN)
    if count:
        raise listed(first, str(root), "put these images in place", SHOWN, count)


def _inspect(root: Path, name: str) -> Indexed | str:
    try:
        data = read_bytes(root / name)
        width, height = decode(data, str(root / name)).size
    except InputError as error:
        return str(error)
    return Indexed(name, width, height, len(data), hashlib.sha256(data).hexdigest())


def write_index(path: str | Path, images: Iterable[Indexed]) -> None:
    """Write an index as JSON lines, in the given order; no file is written if `images` raises an error."""
    write_json_lines(path, (asdict(image) for image in images))


def read_index(path: str | Path) -> list[Indexed]:
    """Return the entries of an index file. Raises InputError naming the wrong line."""
    return list(read_records(path, Indexed, REMEDY))


def identity(hashes: Mapping[str, str]) -> str:
    """Return one hash for a set of images. `hashes`: name of an image -> SHA-256; its order has no effect."""
    return content_hashes.of_json(hashes)


def read_named(path: str | Path, names: list[str]) -> list[Indexed]:
    """Return the index entries of images, in the order of `names`. Raises InputError if one is missing."""
    found = {image.name: image for image in read_index(path)}
    if missing := [name for name in names if name not in found]:
        raise InputError(f"{path} does not list {missing[0]}; {REMEDY}")
    return [found[name] for name in names]
