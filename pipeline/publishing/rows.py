"""Rows of a published dataset, one per pair: written as metadata.parquet, and read back to judge captions.

The call `datasets.load_dataset("imagefolder", ...)` replaces a column `x_file_name` of metadata.parquet with
a column `x` of images. The images must be files below the folder of metadata.parquet.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

from pipeline.datasets.schema import Pair
from pipeline.io.errors import InputError
from pipeline.io.records import plain
from pipeline.publishing import unknown_values

NAME = "metadata.parquet"
ROWS = 1000  # rows per row group; larger groups would only need more memory
EXTRA = "pip install 'change-captioning-lab[publish]'"
OTHER = ("split", "before", "after")  # fields of a pair that a row does not have, or has under another name
REMEDY = "give a row of a dataset that commands.publish wrote"


def row_of(pair: Pair, seed: int | None, licence: str) -> dict[str, Any]:
    """Return a pair as a row of metadata.parquet, with boxes in fractions; `seed`: of rendered datasets."""
    fields_of_pair = {key: value for key, value in asdict(pair).items() if key not in OTHER}
    for side in ("before_box", "after_box"):  # a table may have whole and fractional numbers
        box = fields_of_pair[side]
        fields_of_pair[side] = None if box is None else [float(number) for number in box]
    files = {"before_file_name": pair.before, "after_file_name": pair.after}
    return files | fields_of_pair | {"seed": seed, "licence": licence}


def pair_of(row: Mapping[str, Any], split: str = "") -> Pair:
    """Convert a row of metadata.parquet, of a shard's JSON or of load_dataset to a Pair in `split`."""
    names = [field.name for field in fields(Pair) if field.name not in OTHER]
    record = unknown_values.emptied({key: row[key] for key in names if key in row})
    files = {"before": row.get("before_file_name", ""), "after": row.get("after_file_name", "")}
    return plain(Path("row"), Pair, record | files | {"split": split}, REMEDY)


def check_installed() -> None:
    """Raise InputError if pyarrow, which writes Parquet, is not installed."""
    if find_spec("pyarrow") is None:
        raise InputError(f"pyarrow, which writes {NAME}, is not installed; run {EXTRA}")


def write(path: Path, rows: Iterator[dict[str, Any]]) -> None:
    """Write the rows (see `row_of`) to the Parquet file `path`. Equal rows give equal bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = _columns()
    with pq.ParquetWriter(path, schema) as writer:
        while batch := list(islice(rows, ROWS)):
            writer.write_table(pa.Table.from_pylist(batch, schema))


def _columns() -> Any:
    """Return the pyarrow schema of all splits, also of a split whose pairs have no boxes."""
    import pyarrow as pa

    text, number = pa.string(), pa.float64()
    numbers = pa.list_(number)
    look = [(name, text) for name in ("size", "color", "material", "shape")]
    placed = pa.list_(pa.struct([("number", pa.int32()), *look, ("x", number), ("y", number)]))
    scene = [("before", placed), ("after", placed), ("before_camera", numbers), ("after_camera", numbers)]
    return pa.schema(
        [
            ("before_file_name", text),
            ("after_file_name", text),
            ("pair_id", text),
            ("scene_id", text),
            ("captions", pa.list_(text)),
            ("change_type", text),
            ("before_box", numbers),
            ("after_box", numbers),
            ("viewpoint_iou", number),
            ("changed_object", pa.struct([("before", pa.struct(look)), ("after", pa.struct(look))])),
            ("scene", pa.struct([*scene, ("changed", pa.int32())])),
            ("seed", pa.int64()),
            ("licence", text),
        ]
    )
