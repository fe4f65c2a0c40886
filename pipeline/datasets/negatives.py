"""Read and write files of negatives. A negative is a wrong caption of a pair."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from pipeline.io.outputs import write_json_lines
from pipeline.io.records import read_records

NEGATIVES = 6  # number of negatives per pair
Kind = Literal["retrieve", "replace", "confuse"]
"""The method that made a negative (pipeline/negatives)."""
REMEDY = "write it with `python -m commands.negatives`"


@dataclass(frozen=True)
class Negative:
    """A caption that is wrong for its pair."""

    kind: Kind
    caption: str


@dataclass(frozen=True)
class PairNegatives:
    """A pair's correct captions, and its negatives: NEGATIVES captions that are wrong for the pair."""

    pair_id: str
    split: str
    captions: tuple[str, ...]
    negatives: Annotated[tuple[Negative, ...], Field(min_length=NEGATIVES, max_length=NEGATIVES)]


def write_negatives(path: str | Path, records: Iterable[PairNegatives]) -> None:
    write_json_lines(path, (asdict(record) for record in records))


def read_negatives(path: str | Path, remedy: str = REMEDY) -> dict[str, list[str]]:
    return captions_of(read_records(path, PairNegatives, remedy, "pair_id"))


def captions_of(records: Iterable[PairNegatives]) -> dict[str, list[str]]:
    return {record.pair_id: [negative.caption for negative in record.negatives] for record in records}
