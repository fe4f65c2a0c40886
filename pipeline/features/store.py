"""Read the features of images from a feature store. store_codec.py describes the format.

When a store is opened, the size of every shard is checked.
C: channels of the features; H x W: cells of the feature grid.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NotRequired

import numpy as np
import torch
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from torch import Tensor
from typing_extensions import TypedDict

from pipeline.compute import memory
from pipeline.datasets import images
from pipeline.datasets.schema import Pair
from pipeline.features import store_codec
from pipeline.features.object_storage import CONTEXT, Location
from pipeline.features.store_codec import OF_FILES, SCHEMA
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

    expected: attributes that the store must have, for example {"stride": 16}
    remedy: advice to the user, at the end of error messages

    Raises InputError if an attribute differs, if a shard is damaged, or if the location does not answer.
    """

    def __init__(self, address: str | Path, expected: dict[str, Any], remedy: str | None = None):
        self.location = Location(address)
        self.location.remedy = remedy or self.location.remedy
        self.record = self.location.get("zarr.json") or b""
        self.attributes = self._attributes()
        self._check(expected)
        self.row = {key: row for row, key in enumerate(self.attributes["keys"])}
        import tensorstore

        self.array = self.location.result_of(tensorstore.open(self._reading(), read=True))
        self._check_array()
        self.checked = np.zeros(len(self.row), bool)  # True for images whose checksum was compared

    def _reading(self) -> dict[str, Any]:
        fits = sum(self.attributes["shard_bytes"]) < CACHED * memory.free()
        context = CONTEXT | (MAPPED if fits and not self.location.remote else {})
        return store_codec.array_spec(self.location) | READING | {"context": context}

    def _attributes(self) -> dict[str, Any]:
        try:
            attributes: dict[str, Any] = _GROUP.validate_json(self.record)["attributes"]
        except ValidationError as error:
            raise self._error(f" is not a feature store ({first_fault(error)})") from None
        if attributes["schema"] != SCHEMA:
            raise self._error(f": its schema is {attributes['schema']}, not {SCHEMA}")
        return attributes

    def _check(self, expected: dict[str, Any]) -> None:
        """Raise InputError if an attribute differs from `expected`, or if a shard's size has changed."""
        for name, value in expected.items():
            if (stored := self.attributes.get(name)) != value:
                raise self._error(f": its {name} is {stored!r:.80}, params.yaml wants {value!r}")
        sizes = self.attributes["shard_bytes"]
        files = [store_codec.shard_file(shard) for shard in range(len(sizes))]
        ends = self.location.read_from(files, [size - 1 for size in sizes])
        for file, size, end in zip(files, sizes, ends, strict=True):
            if not end:
                raise self._error(f": {file} is missing or shorter than its {size} bytes")
            if len(end) > 1:
                raise self._error(f": {file} is longer than its {size} bytes")

    def _check_array(self) -> None:
        """Raise InputError unless the array has the form in store_codec.py, and one image per key."""
        shape, kind = self.array.shape, self.array.dtype.name
        if len(shape) != 4 or kind not in ("float16", "uint8"):
            raise self._error(f": its array is {kind} of {shape}, not float16 or uint8 of images x C x H x W")
        attributes = self.attributes
        lists = [attributes["keys"], attributes["sums"], attributes.get("sha256", self.row)]
        if {shape[0], *map(len, lists)} != {len(self.row)}:
            raise self._error(f": it has {shape[0]} images, but {len(self.row)} different keys or other sums")

    def _error(self, fault: str) -> InputError:
        return InputError(f"{self.location.name}{fault}; {self.location.remedy}")

    @property
    def hashes(self) -> dict[str, str]:
        """Hashes of the whole `store`, of how its `features` were made, and of its `images` in any order."""
        image_ids = sorted(self.attributes.get("sha256", self.attributes["keys"]))
        shared = store_codec.shared_attributes(self.attributes)
        if str(shared.get("weights_id", "")).startswith(OF_FILES):
            del shared["weights_id"]  # for imported features, it is a hash of the features themselves
        return {
            "store": sha256(self.record),
            "features": sha256(json.dumps([shared, self.shape], sort_keys=True)),
            "images": sha256(*image_ids),
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
        return np.dtype(self.array.dtype.numpy_dtype)

    def read(self, keys: Sequence[str]) -> np.ndarray:
        """Return the features of images, (images, C, H, W), in the order of `keys`."""
        # each image is read once, because both pairs of a scene have the same before image
        positions = {key: position for position, key in enumerate(dict.fromkeys(keys))}
        try:
            rows = [self.row[key] for key in positions]
        except KeyError as error:
            raise self._error(f" has no image {error}") from None
        features = np.empty((len(rows), *self.shape), self.dtype)
        import tensorstore

        self.location.result_of(tensorstore.array(features).write(self.array[rows]).commit)
        self._check_images(features, rows)
        return features if len(rows) == len(keys) else features[[positions[key] for key in keys]]

    def _check_images(self, features: np.ndarray, rows: list[int]) -> None:
        """Raise InputError if a checksum differs; an image is checked only when first read."""
        unchecked = [index for index, row in enumerate(rows) if not self.checked[row]]
        unchecked_rows = [rows[index] for index in unchecked]
        sums = [store_codec.features_checksum(features[index]) for index in unchecked]
        checksums = store_codec.image_checksums(sums, unchecked_rows, self.attributes)
        for row, checksum in zip(unchecked_rows, checksums, strict=True):
            if checksum != self.attributes["sums"][row]:
                raise self._error(
                    f" is damaged: the image {self.attributes['keys'][row]!r} has other features than were "
                    "written, or zarr.json was changed"
                )
        self.checked[unchecked_rows] = True


def feature_batches(
    pairs: Sequence[Pair], store: FeatureStore, batch: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the features of the before and of the after images, for `batch` pairs at a time, in order."""
    starts = range(0, len(pairs), batch)

    def read(start: int) -> tuple[Tensor, Tensor]:
        names = [name for pair in pairs[start : start + batch] for name in (pair.before, pair.after)]
        grids = torch.from_numpy(store.read(names))
        return grids[0::2], grids[1::2]

    return prefetch(read, starts, workers=1, ahead=2)
