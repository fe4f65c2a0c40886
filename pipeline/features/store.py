"""Read the features of images from a feature store. store_codec.py describes the format.

When a store is opened, the size of every shard is checked.
C: channels of the features; H x W: cells of the feature grid.
"""

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NotRequired

import numpy as np
import tensorstore
import torch
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from torch import Tensor
from typing_extensions import TypedDict

from pipeline.compute import memory
from pipeline.datasets import images
from pipeline.datasets.schema import Pair
from pipeline.features.object_storage import CONTEXT, Location
from pipeline.features.store_codec import (
    ARRAY,
    OF_FILES,
    SCHEMA,
    array_spec,
    bound,
    finite,
    made,
    shard_file,
    sum_of,
)
from pipeline.io.errors import InputError
from pipeline.io.prefetch import prefetch
from pipeline.io.provenance import sha256
from pipeline.io.records import first_fault

# TensorStore need not check cached data again, because a store does not change while it is open
READING = {
    "fill_missing_data_reads": False,
    "recheck_cached_data": "open",
    "recheck_cached_metadata": "open",
}
# Memory mapping avoids a copy from the page cache, so that random batches take half the time. But it halves
# the speed of reading from disk. It is used only for stores that fit into the page cache.
MAPPED = {"file_io_mode": {"mode": "memmap"}}
CACHED = 0.5  # a store is memory-mapped if it needs less than this share of the free memory
LARGEST = 1 << 28  # maximum number of bytes of the group's metadata, enough for some millions of images
LARGEST_IMAGE = 1 << 26  # maximum number of bytes of one image's features: a hundred times ResNet-101's
SHOWN = 80  # maximum number of characters of a wrong value that a message shows


class _Attributes(TypedDict):
    """Attributes that every store has. Further attributes describe how the store's features were made."""

    __pydantic_config__ = ConfigDict(extra="allow", strict=True)  # type: ignore[misc]  # pydantic's own name

    schema: int
    keys: list[str]
    sha256: NotRequired[list[str]]  # hashes of the image files
    shard_bytes: list[Annotated[int, Field(ge=1, lt=2**62)]]
    sums: list[Annotated[int, Field(ge=0, lt=2**32)]]


class _Group(TypedDict):
    attributes: _Attributes


_GROUP: TypeAdapter[Any] = TypeAdapter(_Group)


class FeatureStore:
    """A feature store, opened for reading, in a folder or at an address (http, https, s3, gs).

    `expected` has required attributes, for example {"stride": 16}. `remedy` is the advice in error
    messages; the default is to run the stage "extract". Raises InputError naming an attribute that differs
    from `expected`, or a damaged shard. Raises InputError if the location does not answer.
    """

    def __init__(self, place: str | Path, expected: dict[str, Any], remedy: str | None = None):
        self.location = Location(place)
        self.location.remedy = remedy or self.location.remedy
        self.record = self._group()
        self.attributes = self._attributes()
        self._check(expected)
        self.row = {key: row for row, key in enumerate(self.attributes["keys"])}
        self.array = self.location.answer(tensorstore.open(self._reading(), read=True))
        self._check_array()
        self.checked = np.zeros(len(self.row), bool)  # True for images whose checksum was compared

    def _reading(self) -> dict[str, Any]:
        fits = sum(self.attributes["shard_bytes"]) < CACHED * memory.free()
        context = CONTEXT | (MAPPED if fits and not self.location.remote else {})
        return array_spec(self.location) | READING | {"context": context}

    def _group(self) -> bytes:
        """Return the metadata of the Zarr group: the images' hashes, and how their features were made."""
        if (found := self.location.get("zarr.json", LARGEST)) is None:
            raise self._error(" is not a feature store")
        return found

    def _attributes(self) -> dict[str, Any]:
        try:
            attributes: dict[str, Any] = _GROUP.validate_json(self.record)["attributes"]
        except ValidationError as error:
            raise self._error(f" is not a feature store ({first_fault(error)})") from None
        if attributes["schema"] != SCHEMA:
            raise self._error(f": its schema is {attributes['schema']}, not {SCHEMA}")
        return attributes

    def _check(self, expected: dict[str, Any]) -> None:
        for name, value in expected.items():
            if (found := self.attributes.get(name)) != value:
                text = repr(found)
                shown = text if len(text) <= SHOWN else text[:SHOWN] + "…"
                raise self._error(f": its {name} is {shown}, params.yaml wants {value!r}")
        sizes = self.attributes["shard_bytes"]
        files = [f"{ARRAY}/{shard_file(shard)}" for shard in range(len(sizes))]
        lasts = self.location.have(files, [size - 1 for size in sizes])
        for file, size, last, longer in zip(
            files, sizes, lasts, self.location.have(files, sizes), strict=True
        ):
            if not last:
                raise self._error(f": {file} is missing or shorter than its {size} bytes")
            if longer:
                raise self._error(f": {file} is longer than its {size} bytes")

    def _check_array(self) -> None:
        """Raise InputError unless the array has the form in store_codec.py, and one image per key."""
        shape, kind = self.array.shape, self.array.dtype.name
        if len(shape) != 4 or kind not in ("float16", "uint8"):
            raise self._error(f": its array is {kind} of {shape}, not float16 or uint8 of images x C x H x W")
        if self.array.chunk_layout.read_chunk.shape != (1, *shape[1:]):
            raise self._error(": its chunks are not of one image each")
        if math.prod(shape[1:]) * self.array.dtype.numpy_dtype.itemsize > LARGEST_IMAGE:
            raise self._error(f": an image of {shape[1:]} takes more than {LARGEST_IMAGE:,} bytes")
        count, shards = len(self.row), len(self.attributes["shard_bytes"])
        shard = (self.array.chunk_layout.write_chunk.shape or (None,))[0] or 1
        if (shape[0], len(self.attributes["keys"]), math.ceil(count / shard)) != (count, count, shards):
            raise self._error(
                f": it has {shape[0]} images in {shards} shards of {shard}, and {count} different keys"
            )
        for name in ("sha256", "sums"):
            if len(self.attributes.get(name, self.row)) != count:
                raise self._error(f": its {name} are {len(self.attributes[name])}, not {count}")

    def _error(self, fault: str) -> InputError:
        return InputError(f"{self.location.name}{fault}; {self.location.remedy}")

    @property
    def hashes(self) -> dict[str, str]:
        """Three hashes of the store, under the names `store`, `features` and `images`.

        - store: hash of the whole store
        - features: hash of the features' shape and of how they were made
        - images: hash of the images, which does not depend on their order
        """
        own = sorted(self.attributes.get("sha256", self.attributes["keys"]))
        common = made(self.attributes)
        if str(common.get("weights_id", "")).startswith(OF_FILES):
            del common["weights_id"]  # for imported features, it is a hash of the features themselves
        return {
            "store": sha256(self.record),
            "features": sha256(json.dumps([common, self.shape], sort_keys=True)),
            "images": sha256(*own),
        }

    @property
    def images(self) -> str | None:
        """Hash of all images, as in a dataset's manifest; None if the store has no hashes of the images."""
        if "sha256" not in self.attributes:
            return None
        return images.identity(dict(zip(self.attributes["keys"], self.attributes["sha256"], strict=True)))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of the feature grid of one image."""
        C, H, W = self.array.shape[1:]
        return C, H, W

    @property
    def dtype(self) -> np.dtype:
        """Number type of the store: float16 for features, uint8 for pixels."""
        return np.dtype(self.array.dtype.numpy_dtype)

    def read(self, keys: Sequence[str], out: np.ndarray | None = None) -> np.ndarray:
        """Return the features of images, (images, C, H, W), in the order of `keys`.

        If the array `out` is given, the features are read into it, which is faster than allocating new
        memory.
        """
        # each image is read once, because both pairs of a scene have the same before image
        place = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        try:
            rows = [self.row[key] for key in place]
        except KeyError as error:
            raise self._error(f" has no image {error}") from None
        if len(rows) == len(keys):
            out = np.empty((len(keys), *self.shape), self.dtype) if out is None else out
            return self._into(out, rows)
        distinct = self._into(np.empty((len(rows), *self.shape), self.dtype), rows)
        return np.take(distinct, [place[key] for key in keys], axis=0, out=out)

    def _into(self, out: np.ndarray, rows: list[int]) -> np.ndarray:
        self.location.answer(tensorstore.array(out).write(self.array[rows]).commit)
        self._check_images(out, rows)
        return out

    def _check_images(self, features: np.ndarray, rows: list[int]) -> None:
        """Raise InputError if an image's features are not finite or do not match the image's checksum.

        Each image is checked only when it is read for the first time.
        """
        first = [place for place, row in enumerate(rows) if not self.checked[row]]
        if not first:
            return
        own = [rows[place] for place in first]
        found = bound((sum_of(features[place]) for place in first), own, self.attributes)
        for place, row, each in zip(first, own, found, strict=True):
            image = f" is damaged: the image {self.attributes['keys'][row]!r}"
            if each != self.attributes["sums"][row]:
                raise self._error(f"{image} has other features than were written, or zarr.json was changed")
            if not finite(features[place]):
                raise self._error(f"{image} has features that are not finite")
            self.checked[row] = True


def feature_batches(
    pairs: Sequence[Pair], store: FeatureStore, batch: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield (features of the before images, features of the after images) for `batch` pairs at a time.

    The pairs keep their order. Some batches are read in advance.
    """
    starts = range(0, len(pairs), batch)

    def read(start: int) -> tuple[Tensor, Tensor]:
        names = [name for pair in pairs[start : start + batch] for name in (pair.before, pair.after)]
        grids = torch.from_numpy(store.read(names))
        return grids[0::2], grids[1::2]

    return prefetch(read, starts, workers=1, ahead=2)
