"""Choose the test pairs for the report's gallery, for which decoding also writes alignments."""

from collections.abc import Sequence

from pipeline.datasets.schema import CHANGE, CHANGE_TYPES, NO_CHANGE, Pair

ALIGNED = 24
"""Number of pairs for which decoding writes alignments. The size of a gallery is a setting of the report."""


def gallery(pairs: Sequence[Pair], count: int) -> dict[str | None, list[Pair]]:
    """Return the pairs that `choose` chooses; for a `count` up to ALIGNED, all have alignments."""
    if count > ALIGNED:
        return choose(pairs, count)
    return choose([pair for kind in choose(pairs, ALIGNED).values() for pair in kind], count)


def choose(pairs: Sequence[Pair], count: int) -> dict[str | None, list[Pair]]:
    """Choose up to `count` pairs; return change type -> pairs (None: unknown type).

    The types have equal numbers of pairs if possible. The pairs of a type are evenly spaced in `pairs`.
    """
    order = (*CHANGE_TYPES, CHANGE, NO_CHANGE, None)
    kinds = {kind: [p for p in pairs if p.change_type == kind] for kind in order}
    shares = dict.fromkeys(kinds, 0)
    for _ in range(min(count, sum(map(len, kinds.values())))):
        # the first type among those with the smallest share so far
        least = min((kind for kind in kinds if shares[kind] < len(kinds[kind])), key=shares.__getitem__)
        shares[least] += 1
    return {
        kind: [members[number * len(members) // shares[kind]] for number in range(shares[kind])]
        for kind, members in kinds.items()
        if shares[kind]
    }
