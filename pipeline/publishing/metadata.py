"""Write metadata.parquet of a split: one row per pair, with two columns that name its image files.

The call `datasets.load_dataset("imagefolder", ...)` replaces a column `x_file_name` with a column `x` of
images. The images must be files below the folder of metadata.parquet. The types of the columns are set
explicitly, so that a split without any box has the same columns as the other splits.
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from pipeline.io.errors import InputError

NAME = "metadata.parquet"
ROWS = 1000  # rows per row group; larger groups would only need more memory
EXTRA = "pip install 'change-captioning-lab[publish]'"


def check_installed() -> None:
    """Raise InputError if pyarrow, which writes Parquet, is not installed."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise InputError(f"pyarrow, which writes {NAME}, is not installed; run {EXTRA}") from None


def write(path: Path, rows: Iterator[dict[str, Any]]) -> None:
    """Write the rows to the file `path`. Equal rows give equal bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = columns()
    with pq.ParquetWriter(path, schema) as writer:
        while some := list(islice(rows, ROWS)):
            writer.write_table(pa.Table.from_pylist(some, schema))


def columns() -> Any:
    """Return the columns with their types, as a schema of pyarrow."""
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
