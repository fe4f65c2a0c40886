"""Rows of a published dataset: write rows from pairs, and read pairs back to judge captions."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from pipeline.datasets.schema import Pair
from pipeline.io.records import plain

OTHER = ("split", "before", "after")  # fields of a pair that a row does not have, or has under another name
REMEDY = "give a row of a dataset that commands.publish wrote"


def row_of(pair: Pair, seed: int | None, licence: str) -> dict[str, Any]:
    """Return a pair as a row of metadata.parquet: column -> value."""
    kept = {key: value for key, value in asdict(pair).items() if key not in OTHER}
    files = {"before_file_name": pair.before, "after_file_name": pair.after}
    return files | kept | {"seed": seed, "licence": licence}


def pair_of(row: Mapping[str, Any], split: str = "") -> Pair:
    """Return the pair of a row. The row is from metadata.parquet, a shard's JSON, or datasets.load_dataset.

    The pair's file names are empty if the row has images instead of file names. Raises InputError naming a
    key that is wrong or missing.
    """
    known = [field.name for field in fields(Pair) if field.name not in OTHER]
    record = {key: row[key] for key in known if key in row}
    files = {"before": row.get("before_file_name", ""), "after": row.get("after_file_name", "")}
    return plain(Path("row"), Pair, record | files | {"split": split}, REMEDY)
