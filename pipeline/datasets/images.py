"""Decode image files to 8-bit RGB, and write an index of a dataset's image files."""

import hashlib
import io
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import cv2
import numpy as np
from PIL import ExifTags, Image, TiffImagePlugin, UnidentifiedImageError

from pipeline.datasets import similar_names, tiff_tags, transparency
from pipeline.datasets.pillow_settings import decoding
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
LARGE = 1 << 24  # pixels: larger images are decoded one at a time, else many threads could fill the memory
_LARGE_LOCK = threading.Lock()
LOW = 256  # 16-bit values below this have a high byte of 0
MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBX", "RGBA", "RGBa", "CMYK", "YCbCr")
"""Pillow's modes that are converted to RGB."""
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"  # beginning of every PNG file; width and height follow
RGB_8 = b"\x08\x02\0\0\0"  # header values: bits, colour type, compression, filter, not interlaced
AS_STORED = cv2.IMREAD_COLOR_RGB | cv2.IMREAD_IGNORE_ORIENTATION
END_OF_PNG = b"IEND\xaeB`\x82"  # name and CRC of the last chunk
ORIENTATION = "orientation"
"""Key of the EXIF orientation, 2 to 8, in the `info` of a decoded image; absent for an upright image."""
UNSUPPORTED = {
    **{b"ftyp" + brand: "a HEIC image" for brand in (b"heic", b"heix", b"hevc", b"mif1", b"msf1")},
    **{b"ftyp" + brand: "an AVIF image" for brand in (b"avif", b"avis")},
    b"ion http": "a pointer of Git LFS (run `git lfs pull`)",
    b"JXL \r\n\x87\n": "a JPEG XL image",
    b"jP  \r\n\x87\n": "a JPEG 2000 image",
}
"""Kinds of files that are recognised but not read: bytes 4 to 12 of the file -> kind."""
RESCALE = "convert it to 8 bits, with the same scale for all images"
REMEDY = "run `dvc repro prepare` to make it"
PREPARE_AGAIN = (
    "run `dvc repro` to prepare it again (if that changes nothing: `dvc repro --force --single-item "
    "prepare@DATASET` first)"
)


@dataclass(frozen=True, slots=True)
class Indexed:
    """Index entry of an image file: its size and hash when the dataset was prepared."""

    name: str  # relative to the dataset's root
    width: int  # pixels; boxes refer to them
    height: int
    bytes: int
    sha256: str


def decode(data: bytes, name: str) -> Image.Image:
    """Decode a file's bytes to an RGB image of 8 bits per channel; the extension does not matter.

    - Only the first frame of an animation and the first page of a TIFF are read.
    - Transparency is composited over white. A TIFF's extra band is alpha only if the file says so
      (transparency.py).
    - 16-bit values keep their high byte, so that both images of a pair have the same scale.
    - CMYK becomes R = (255 - C)(255 - K) / 255, and G and B likewise; a JPEG has inverted values.
    - Orientation, colour profiles and gamma are NOT applied, because boxes are in pixels of the file, and
      because published features were computed without them. `info` has the ORIENTATION.
    """
    if not data:
        raise InputError(f"{name} is empty (0 bytes); replace the file")
    if kind := UNSUPPORTED.get(data[4:12]):
        raise InputError(f"{name} is {kind}, which is not read; convert it to PNG")
    with decoding(), _errors_converted(name, tiff=data[:2] in (b"II", b"MM")):
        image = Image.open(io.BytesIO(data), formats=FORMATS)
        if image.format == "PNG" and END_OF_PNG not in data:  # Pillow accepts such a file
            raise ValueError("image file is truncated: no end mark")
    return converted(image, name)


def decode_array(data: bytes, name: str) -> np.ndarray:
    """Decode as `decode` to RGB, uint8 (H, W, 3); OpenCV saves a fifth of the time of plain PNG files."""
    pixels = cv2.imdecode(np.frombuffer(data, np.uint8), AS_STORED) if _is_plain_png(data) else None
    return np.asarray(decode(data, name)) if pixels is None else pixels


def _is_plain_png(data: bytes) -> bool:
    """Return True for a complete 8-bit RGB PNG file without interlacing, transparency or animation."""
    header = data[: max(0, data.find(b"IDAT"))]
    if header[:16] != PNG or header[24:29] != RGB_8 or b"tRNS" in header or b"acTL" in header:
        return False
    width, height = (int.from_bytes(header[offset : offset + 4]) for offset in (16, 20))
    return width * height <= MOST_PIXELS and END_OF_PNG in data


def converted(image: Image.Image, name: str) -> Image.Image:
    """Convert an opened image to RGB by the rules of `decode`, in up to 16 bytes of memory per pixel."""
    with _errors_converted(name):
        if image.width * image.height > MOST_PIXELS:
            raise Image.DecompressionBombError
        if not image.width or not image.height:
            raise ValueError("it has no pixels")
    with decoding(), _LARGE_LOCK if image.width * image.height > LARGE else nullcontext():
        return _loaded(image, name)


def _loaded(image: Image.Image, name: str) -> Image.Image:
    is_opaque = False
    with _errors_converted(name):
        if isinstance(image, TiffImagePlugin.TiffImageFile):
            tiff_tags.check(image.tag_v2, name)
            is_opaque = not tiff_tags.has_alpha(image.tag_v2)
            orientation = orientation_of(image)
            image.getexif()[ExifTags.Base.Orientation] = 1  # Pillow would rotate a TIFF, and no other format
            image = image.copy()  # which has the size of the stored pixels
        else:
            image.load()
            orientation = image.info.get(ORIENTATION) or orientation_of(image)
    rgb = _rgb(image, name, is_opaque)
    rgb.info = {ORIENTATION: orientation} if orientation > 1 else {}
    return rgb


def orientation_of(image: Image.Image) -> int:
    """Return the EXIF orientation, from 1 to 8; 1 if the EXIF data is damaged or missing."""
    try:
        orientation = image.getexif().get(ExifTags.Base.Orientation, 1)
    except Exception:  # Pillow raises any exception on damaged metadata
        return 1
    return orientation if orientation in range(1, 9) else 1


def _rgb(image: Image.Image, name: str, is_opaque: bool) -> Image.Image:
    """Convert a loaded image to 8-bit RGB, composited over white unless `is_opaque`."""
    if image.mode == "F":
        raise InputError(f"{name} has floating-point numbers, whose scale is unknown; {RESCALE}")
    if image.mode.startswith("I"):
        image = _high_byte(image, name)
    if image.mode not in MODES:
        raise InputError(f"{name} has pixels of the kind {image.mode}; convert it to 8-bit RGB")
    if is_opaque or not image.has_transparency_data:
        return image.convert("RGB")
    return transparency.over_white(image.convert("RGBA"), name)


def _high_byte(image: Image.Image, name: str) -> Image.Image:
    """Convert 16-bit grey, which Pillow may store in 32 bits, to 8 bits, unless this makes it black."""
    values = np.asarray(image)
    if values.min() < 0 or values.max() > 0xFFFF:
        raise InputError(f"{name} has pixels beyond 16 bits; {RESCALE}")
    if 0 < values.max() < LOW:
        raise InputError(
            f"{name} has 16 bits, but no value above {values.max()}: it would be black; {RESCALE}"
        )
    return Image.fromarray((values >> 8).astype(np.uint8))


@contextmanager
def _errors_converted(name: str, tiff: bool = False) -> Iterator[None]:
    """Turn every error in the `with` block into an InputError that names the file."""
    try:
        yield
    except InputError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise InputError(f"{name} has more than {MOST_PIXELS:,} pixels; scale it down") from None
    except UnidentifiedImageError:
        if tiff:
            raise InputError(f"{name} is a TIFF that is not read; {tiff_tags.CONVERT}") from None
        kinds = ", ".join(FORMATS)
        raise InputError(f"{name} is no image with pixels ({kinds}); replace the file") from None
    except Exception as error:  # Pillow raises any exception on damaged files
        reason = str(error) or type(error).__name__
        raise InputError(f"{name} does not open ({reason}); replace the file") from None


def read_bytes(path: Path) -> bytes:
    """Return a file's bytes. Raises InputError for a file that is missing or not regular."""
    try:
        return inputs.read_bytes(path)
    except (OSError, ValueError) as error:  # ValueError: a name with a null byte
        reason = getattr(error, "strerror", error)
        hint = similar_names.hint(path, path.parent)
        raise InputError(f"{path} cannot be read ({reason}){hint}; put the file there") from None


def index(root: Path, names: list[str]) -> Iterator[Indexed]:
    """Decode and hash every image, a few at a time; one InputError at the end names all broken images."""
    problems: list[str] = []
    threads = os.cpu_count() or 1
    results = prefetch(partial(_inspect, root), names, threads, 4 * threads)
    for result in track(results, "checking", "images", len(names)):
        if isinstance(result, Indexed):
            yield result
        else:
            problems.append(result)
    if problems:
        raise listed(problems, str(root), "put these images in place")


def _inspect(root: Path, name: str) -> Indexed | str:
    try:
        data = read_bytes(root / name)
        width, height = decode(data, str(root / name)).size
    except InputError as error:
        return str(error)
    return Indexed(name, width, height, len(data), hashlib.sha256(data).hexdigest())


def write_index(path: str | Path, images: Iterable[Indexed]) -> None:
    write_json_lines(path, (asdict(image) for image in images))


def read_index(path: str | Path) -> list[Indexed]:
    return list(read_records(path, Indexed, REMEDY))


def identity(hashes: Mapping[str, str]) -> str:
    return content_hashes.of_json(hashes)


def read_named(path: str | Path, names: list[str]) -> list[Indexed]:
    """Return the index entries of images, in the order of `names`. Raises InputError if one is missing."""
    entries = {image.name: image for image in read_index(path)}
    if missing := [name for name in names if name not in entries]:
        raise InputError(f"{path} does not list {missing[0]}; {REMEDY}")
    return [entries[name] for name in names]
