"""Kinds of change that a model's routers found (MEDIC), read from captions.json, against the true kinds.

A line of captions.json has the kind that the routers found and its probability: `kind`, `kind_probability`.
If the true kinds opened the gate (decode.labelled_gate), it also has `"gate": "label"`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.datasets.schema import CHANGE, CHANGE_TYPES, NO_CHANGE, Pair
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_json
from pipeline.scoring import accuracy

KEY = "routing"  # in metrics.json
KIND, PROBABILITY, GATE = "kind", "kind_probability", "gate"  # in captions.json
LABEL = "label"  # value of GATE
REMEDY = "run `dvc repro decode` to make it"


@dataclass(frozen=True)
class Found:
    """Kinds that the routers found: pair id -> kind. `gate` is LABEL if the true kinds opened the gate."""

    kinds: Mapping[str, str]
    gate: str | None = None

    def shares(self, pairs: Sequence[Pair]) -> dict[str, float]:
        """Return the shares, 0 to 1, of pairs whose routing is right.

        "change": share of all pairs for which the routers are right about change or no change
        "kind": share of changed pairs whose kind they find

        Only pairs whose truth is known are counted. A share without pairs is left out.
        """
        known = [pair for pair in pairs if pair.pair_id in self.kinds]
        right = [
            None if pair.changed is None else (self.kinds[pair.pair_id] != NO_CHANGE) == pair.changed
            for pair in known
        ]
        kinds = [
            self.kinds[pair.pair_id] == pair.change_type
            for pair in known
            if pair.change_type not in (None, CHANGE, NO_CHANGE)
        ]
        shares = {"change": accuracy.share(right), "kind": accuracy.share(kinds)}
        return {name: share for name, share in shares.items() if share is not None}


NOTHING = Found({})


def read(path: Path) -> Found:
    """Read the routers' kinds of a captions.json; NOTHING for captions of another model or program."""
    if path.suffix != ".json":
        return NOTHING
    try:
        tree = read_json(path, REMEDY)
    except InputError:  # JSON lines of another program, which have no kinds
        return NOTHING
    rows = [row for row in tree if isinstance(row, dict)] if isinstance(tree, list) else []
    kinds = {
        str(row.get("image_id")): row[KIND] for row in rows if row.get(KIND) in (*CHANGE_TYPES, NO_CHANGE)
    }
    return Found(kinds, LABEL if any(row.get(GATE) == LABEL for row in rows) else None)


def of_caption(kind: str | None, probability: float | None, labelled: bool) -> dict[str, Any]:
    """Return what a line of captions.json says of the routing; {} if the model has no routers."""
    if kind is None:
        return {}
    found = {KIND: kind, PROBABILITY: None if probability is None else round(probability, 4)}
    return found | ({GATE: LABEL} if labelled else {})
