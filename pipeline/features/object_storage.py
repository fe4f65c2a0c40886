"""The location of a feature store: a folder, or the address of an object store (http, https, s3, gs).

https://google.github.io/tensorstore/kvstore/ describes the addresses and their credentials.
"""

import sys
from collections.abc import Sequence
from concurrent.futures import TimeoutError as Unanswered
from pathlib import Path
from typing import Any, TypeVar

import tensorstore

from pipeline.io.errors import InputError
from pipeline.io.inputs import check_regular

SCHEMES = ("http://", "https://", "s3://", "gs://")
PATIENCE = 60.0  # maximum number of seconds for one answer; a batch of 25 MB at 0.5 MB/s takes 50
RETRIES = {
    "max_retries": 3,
    "initial_delay": "200ms",
    "max_delay": "2s",
}  # TensorStore's default, 32 retries, takes minutes
CONTEXT = dict.fromkeys(("http_request_retries", "s3_request_retries", "gcs_request_retries"), RETRIES)
DAMAGE = ("DATA_LOSS", "FAILED_PRECONDITION", "NOT_FOUND")  # first words of messages on damaged stores
LONGEST = 300  # maximum number of characters shown of a TensorStore message, which may quote a file
Result = TypeVar("Result")
STORES = "the folder of the dataset's stores, one for each input, or its address (http, s3, gs)"


def store_of(folder: str | Path, input: str) -> str:
    """Return the path or address of the feature store for a kind of model input, such as "grid".

    `folder` is the folder or address that has all stores of the dataset.
    """
    return f"{str(folder).rstrip('/')}/{input}.zarr"


class Location:
    """The folder or address of a store. `name` is the text that the user gave."""

    def __init__(self, place: str | Path):
        self.name = str(place)
        self.remote = self.name.startswith(SCHEMES)
        self.remedy = (
            "look at the address, or copy a whole store there again"
            if self.remote
            else "run `dvc repro extract` to make it again"
        )
        if "://" in self.name and not self.remote:
            raise InputError(
                f"{place}: a store is in a folder, or at an address that begins with {', '.join(SCHEMES)}"
            )

    def spec(self, below: str = "") -> Any:
        """Return TensorStore's spec of the key-value store in the sub-folder `below` of this location."""
        if self.remote:
            return f"{self.name.rstrip('/')}/{below}"
        return {"driver": "file", "path": f"{Path(self.name).resolve()}/{below}"}  # resolve() removes ".."

    def get(self, key: str, most: int) -> bytes | None:
        """Return the bytes under a key; None if the key does not exist.

        Raises InputError if there are more than `most` bytes, or if the location does not answer or refuses
        access.
        """
        if self.have([key], [most])[0]:
            raise InputError(f"{self.name}: {key} has more than {most:,} bytes; {self.remedy}")
        return self._read([key], [slice(None)])[0]

    def have(self, keys: Sequence[str], places: Sequence[int]) -> list[bool]:
        """Return a bool per key: True if the file with this key has a byte at the key's offset in `places`.

        Raises InputError if the location does not answer or refuses access.
        """
        found = self._read(keys, [slice(place, place + 1) for place in places])
        return [byte is not None for byte in found]

    def _read(self, keys: Sequence[str], parts: Sequence[slice]) -> list[bytes | None]:
        if not self.remote:
            for path in (Path(self.name, key) for key in keys):
                if path.exists():  # TensorStore would wait for a pipe
                    check_regular(path, sys.maxsize)
        store = self.answer(tensorstore.KvStore.open(self.spec(), context=tensorstore.Context(CONTEXT)))
        asked = [store.read(key, byte_range=part) for key, part in zip(keys, parts, strict=True)]
        return [self._value(future) for future in asked]

    def answer(self, future: "tensorstore.Future[Result]") -> Result:
        """Wait for a result of TensorStore and return it.

        Raises InputError if there is no result within PATIENCE seconds, if the store is damaged, or if access
        is refused.
        """
        try:
            return self._wait(future)
        except ValueError as error:
            said = "is damaged" if _kind(error) in DAMAGE else "cannot be read"
            raise InputError(f"{self.name} {said} ({_clause(error)}); {self.remedy}") from None

    def _value(self, future: "tensorstore.Future[tensorstore.KvStore.ReadResult]") -> bytes | None:
        try:
            result = self._wait(future)
        except ValueError as error:
            if _kind(error) == "OUT_OF_RANGE":
                return None
            raise InputError(f"{self.name} cannot be read ({_clause(error)}); {self.remedy}") from None
        return result.value if result.state == "value" else None

    def _wait(self, future: "tensorstore.Future[Result]") -> Result:
        try:
            return future.result(timeout=PATIENCE)
        except Unanswered:
            raise InputError(f"{self.name} did not answer in {PATIENCE:g} s; {self.remedy}") from None


def _kind(error: Exception) -> str:
    return str(error).split(":")[0]


def _clause(error: Exception) -> str:
    return " ".join(str(error).split("[")[0].split())[:LONGEST]
