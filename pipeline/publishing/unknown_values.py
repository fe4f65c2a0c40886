"""Values that mean "unknown" in a shard of a published dataset, where a null would leave a column untyped.

The path of a value is its keys in the row, for example /changed_object/before/size. Items of a list have the
key *.
"""

from collections.abc import Iterator, Mapping, Set
from typing import Any

TEXT, POINT = "unknown", [-1e9, -1e9, -1e9]  # no camera is at this point
LOOK = dict.fromkeys(("size", "color", "material", "shape"), TEXT)
PLACED = {"number": -1} | LOOK | {"x": 0.0, "y": 0.0}
UNKNOWN: dict[str, Any] = {
    "change_type": TEXT,
    "before_box": [0.0, 0.0, 0.0, 0.0],
    "after_box": [0.0, 0.0, 0.0, 0.0],
    "viewpoint_iou": -1.0,
    "changed_object": {"before": LOOK, "after": LOOK},
    "scene": {
        "before": [PLACED],
        "after": [PLACED],
        "before_camera": POINT,
        "after_camera": POINT,
        "changed": -1,
    },
}
"""Column -> value that means "unknown". No such value occurs in a pair."""


def paths_of(value: Any, path: str = "") -> Iterator[str]:
    """Yield the path of each value in a row that is not null."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from paths_of(item, f"{path}/{key}")
    elif isinstance(value, list | tuple):
        for item in value:
            yield from paths_of(item, f"{path}/*")
    elif value is not None:
        yield path


def filled(row: Mapping[str, Any], missing: Set[str]) -> dict[str, Any]:
    return dict(row) | {key: _filled(row[key], each, f"/{key}", missing) for key, each in UNKNOWN.items()}


def _filled(value: Any, unknown: Any, path: str, missing: Set[str]) -> Any:
    if not any(each == path or each.startswith(f"{path}/") for each in missing):
        return value
    if not value or not isinstance(unknown, dict):
        return value or unknown
    return {key: _filled(value[key], each, f"{path}/{key}", missing) for key, each in unknown.items()}


def emptied(row: Mapping[str, Any]) -> dict[str, Any]:
    return dict(row) | {key: _emptied(row[key], each) for key, each in UNKNOWN.items() if key in row}


def _emptied(value: Any, unknown: Any) -> Any:
    if (list(value) if isinstance(value, tuple) else value) == unknown:
        return [] if unknown == [PLACED] else None
    if not isinstance(value, Mapping) or not isinstance(unknown, dict):
        return value
    return {key: _emptied(item, unknown.get(key)) for key, item in value.items()}
