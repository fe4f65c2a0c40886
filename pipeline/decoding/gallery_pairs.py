"""Choose the test pairs for the report's gallery of examples.

For the chosen pairs, decoding also writes alignments and class-token attention.
"""

from collections.abc import Sequence

from pipeline.datasets.schema import CHANGE, CHANGE_TYPES, NO_CHANGE, Pair

ALIGNED = 24
"""Number of pairs for which decoding writes alignments. The size of a gallery is a setting of the report."""


def gallery(pairs: Sequence[Pair], count: int) -> dict[str | None, list[Pair]]:
    """Choose `count` pairs; return change type -> pairs (None: unknown type).

    If `count` is at most ALIGNED, all chosen pairs have alignments.
    """
    if count > ALIGNED:
        return choose(pairs, count)
    return choose([pair for kind in choose(pairs, ALIGNED).values() for pair in kind], count)


def choose(pairs: Sequence[Pair], count: int) -> dict[str | None, list[Pair]]:
    """Choose up to `count` pairs; return change type -> pairs (None: unknown type).

    The numbers of pairs of the types are as equal as possible. The chosen pairs of a type are evenly spaced
    among all pairs of the type. The types are in the schema's order, followed by changes of unnamed type, no
    change, and unknown (None).
    """
    order = (*CHANGE_TYPES, CHANGE, NO_CHANGE, None)
    kinds = {kind: [p for p in pairs if p.change_type == kind] for kind in order}
    shares = _shares({kind: len(members) for kind, members in kinds.items()}, count)
    return {kind: _spread(kinds[kind], share) for kind, share in shares.items() if share}


def _shares(sizes: dict[str | None, int], count: int) -> dict[str | None, int]:
    """Return type -> number of pairs to choose, `count` in all, as equal as possible."""
    shares = dict.fromkeys(sizes, 0)
    for _ in range(min(count, sum(sizes.values()))):
        # the first kind among those with the smallest share so far
        kind = min((kind for kind in sizes if shares[kind] < sizes[kind]), key=shares.__getitem__)
        shares[kind] += 1
    return shares


def _spread(members: list[Pair], count: int) -> list[Pair]:
    return [members[number * len(members) // count] for number in range(count)]
