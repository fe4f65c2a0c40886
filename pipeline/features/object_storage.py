"""The location of a feature store: a folder, or the address of an object store (http, https, s3, gs).

https://google.github.io/tensorstore/kvstore/ describes the addresses and their credentials.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pipeline.io.errors import InputError

if TYPE_CHECKING:
    import tensorstore

SCHEMES = ("http://", "https://", "s3://", "gs://")
TIMEOUT = 60.0  # maximum number of seconds for one answer; a batch of 25 MB at 0.5 MB/s takes 50
# TensorStore's default, 32 retries, takes minutes
RETRIES = {"max_retries": 3, "initial_delay": "200ms", "max_delay": "2s"}
CONTEXT = dict.fromkeys(("http_request_retries", "s3_request_retries", "gcs_request_retries"), RETRIES)
DAMAGED = ("DATA_LOSS", "FAILED_PRECONDITION", "NOT_FOUND")  # first words of messages on damaged stores
FILE_ENDS = "OUT_OF_RANGE"  # first word of the message if a file ends before the part that is read
LONGEST = 300  # maximum number of characters shown of a TensorStore message, which may quote a file
Result = TypeVar("Result")
STORES = "the folder of the dataset's stores, one for each input, or its address (http, s3, gs)"


def store_of(folder: str | Path, input: str) -> str:
    return f"{str(folder).rstrip('/')}/{input}.zarr"


class Location:
    """The folder or address of a store. `name` is the text that the user gave."""

    def __init__(self, address: str | Path):
        self.name = str(address)
        self.remote = self.name.startswith(SCHEMES)
        self.remedy = "run `dvc repro extract` to make it again"
        if self.remote:
            self.remedy = "look at the address, or copy a whole store there again"
        elif "://" in self.name:
            raise InputError(
                f"{address}: a store is in a folder, or at an address that begins with {', '.join(SCHEMES)}"
            )

    def spec(self, below: str = "") -> Any:
        """Return TensorStore's spec of the key-value store in the sub-folder `below` of this location."""
        if self.remote:
            return f"{self.name.rstrip('/')}/{below}"
        return {"driver": "file", "path": f"{Path(self.name).resolve()}/{below}"}  # resolve() removes ".."

    def get(self, key: str) -> bytes | None:
        return self.read_from([key], [0])[0]

    def read_from(self, keys: Sequence[str], starts: Sequence[int]) -> list[bytes | None]:
        """Return each file's bytes from its offset on; None for a missing or shorter file."""
        import tensorstore

        store = self.result_of(tensorstore.KvStore.open(self.spec(), context=tensorstore.Context(CONTEXT)))
        futures = [
            store.read(key, byte_range=slice(start, None)) for key, start in zip(keys, starts, strict=True)
        ]
        results = [self.result_of(future, or_none=FILE_ENDS) for future in futures]
        return [result.value if result and result.state == "value" else None for result in results]

    def result_of(self, future: "tensorstore.Future[Result]", or_none: str = "-") -> Result | Any:
        """Wait for a result of TensorStore; None if it fails with a message that begins with `or_none`.

        Another failure, or no result within TIMEOUT seconds, is an InputError.
        """
        try:
            return future.result(timeout=TIMEOUT)
        except TimeoutError:
            raise InputError(f"{self.name} did not answer in {TIMEOUT:g} s; {self.remedy}") from None
        except ValueError as error:
            if str(error).startswith(or_none):
                return None
            clause = " ".join(str(error).split("[")[0].split())[:LONGEST]
            fault = "is damaged" if clause.startswith(DAMAGED) else "cannot be read"
            raise InputError(f"{self.name} {fault} ({clause}); {self.remedy}") from None
