"""Where a store lies: a folder, or an address of an object store, read in the same way.

https://google.github.io/tensorstore/kvstore/ has the addresses and how each finds its credentials.
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
PATIENCE = 60.0  # seconds for one answer: a batch of 25 MB at half a megabyte a second
RETRIES = {"max_retries": 3, "initial_delay": "200ms", "max_delay": "2s"}  # TensorStore's own: 32, minutes
CONTEXT = dict.fromkeys(("http_request_retries", "s3_request_retries", "gcs_request_retries"), RETRIES)
DAMAGE = ("DATA_LOSS", "FAILED_PRECONDITION", "NOT_FOUND")  # how TensorStore begins its messages
LONGEST = 300  # letters of its messages that are told: they may quote the file
Result = TypeVar("Result")
STORES = "the folder of the dataset's stores, one for each input, or its address (http, s3, gs)"


def store_of(folder: str | Path, input: str) -> str:
    """The store of an input, in the folder (or address) of a dataset's stores."""
    return f"{str(folder).rstrip('/')}/{input}.zarr"


class Location:
    """A folder or an address, `name` as the user gave it."""

    def __init__(self, place: str | Path):
        self.name = str(place)
        self.remote = self.name.startswith(SCHEMES)
        self.remedy = (
            "look at the address, or copy a whole store there again"
            if self.remote
            else "run `dvc repro extract` to make it again"
        )
        if "://" in self.name and not self.remote:
            raise InputError(f"{place}: a store lies in a folder or at {', '.join(SCHEMES)}")

    def spec(self, below: str = "") -> Any:
        """TensorStore's key-value store of what lies in the folder `below`."""
        if self.remote:
            return f"{self.name.rstrip('/')}/{below}"
        return {"driver": "file", "path": f"{Path(self.name).resolve()}/{below}"}  # it takes no ..

    def get(self, key: str, most: int) -> bytes | None:
        """The bytes of a key; None where there is none.

        Raises InputError where they are more than `most`, and where the place does not answer, or refuses to.
        """
        if self.have([key], [most])[0]:
            raise InputError(f"{self.name}: {key} has more than {most:,} bytes; {self.remedy}")
        return self._read([key], [slice(None)])[0]

    def have(self, keys: Sequence[str], places: Sequence[int]) -> list[bool]:
        """Whether each key has a byte at that place; raises as `get` does."""
        found = self._read(keys, [slice(place, place + 1) for place in places])
        return [byte is not None for byte in found]

    def _read(self, keys: Sequence[str], parts: Sequence[slice]) -> list[bytes | None]:
        if not self.remote:
            for path in (Path(self.name, key) for key in keys):
                if path.exists():  # for a pipe TensorStore would wait
                    check_regular(path, sys.maxsize)
        store = self.answer(tensorstore.KvStore.open(self.spec(), context=tensorstore.Context(CONTEXT)))
        asked = [store.read(key, byte_range=part) for key, part in zip(keys, parts, strict=True)]
        return [self._value(future) for future in asked]

    def answer(self, future: "tensorstore.Future[Result]") -> Result:
        """What was asked for. Raises InputError after PATIENCE seconds, or where it is damaged or refused."""
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
