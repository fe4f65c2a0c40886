"""Layers of settings: nested mappings of one form. The last layer that names a key wins."""

from collections.abc import Mapping
from typing import Any

Values = Mapping[str, Any]


def merged(*layers: Values) -> dict[str, Any]:
    """Merge nested mappings, from the lowest layer to the highest, into a new mapping."""
    result: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            below = result.get(key)
            nested = isinstance(value, Mapping)
            result[key] = merged(below if isinstance(below, Mapping) else {}, value) if nested else value
    return result


def without_nulls(values: Values) -> dict[str, Any]:
    """Return nested mappings without their nulls: a key whose value is null names nothing."""
    return {
        key: without_nulls(value) if isinstance(value, Mapping) else value
        for key, value in values.items()
        if value is not None
    }


def flat(values: Values, prefix: str = "") -> dict[str, Any]:
    """Return dotted key -> value for all values in nested mappings. An empty mapping counts as a value."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= (
            flat(value, f"{prefix}{key}.")
            if isinstance(value, Mapping) and value
            else {prefix + str(key): value}
        )
    return found
