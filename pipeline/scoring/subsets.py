"""The parts of a split that are scored as corpora of their own."""

from collections.abc import Sequence

from pipeline.datasets.schema import CHANGE_TYPES, Pair


def subsets(pairs: Sequence[Pair]) -> dict[str, list[str]]:
    """Name -> pair ids: change, no_change and each type of change; a part without pairs is left out."""
    parts = {
        "change": [pair.pair_id for pair in pairs if pair.changed],
        "no_change": [pair.pair_id for pair in pairs if pair.changed is False],
    }
    parts |= {kind: [pair.pair_id for pair in pairs if pair.change_type == kind] for kind in CHANGE_TYPES}
    return {name: members for name, members in parts.items() if members}
