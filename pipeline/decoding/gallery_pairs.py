"""Which test pairs the report's gallery shows; decoding keeps more of ALIGNED of them than of the others."""

from collections.abc import Sequence

from pipeline.datasets.schema import CHANGE, CHANGE_TYPES, NO_CHANGE, Pair

ALIGNED = 24
"""Pairs of which decoding keeps how their images align: its own number, for a gallery's is of the report."""


def gallery(pairs: Sequence[Pair], count: int) -> dict[str | None, list[Pair]]:
    """As `choose`, among the pairs that decoding keeps more of, where those are enough."""
    if count > ALIGNED:
        return choose(pairs, count)
    return choose([pair for kind in choose(pairs, ALIGNED).values() for pair in kind], count)


def choose(pairs: Sequence[Pair], count: int) -> dict[str | None, list[Pair]]:
    """Up to `count` pairs by change type, as many of each type as can be, spread over the pairs' order.

    The types are in the schema's order, then a change of unnamed type, no change, unknown (None).
    """
    order = (*CHANGE_TYPES, CHANGE, NO_CHANGE, None)
    kinds = {kind: [p for p in pairs if p.change_type == kind] for kind in order}
    shares = _shares({kind: len(members) for kind, members in kinds.items()}, count)
    return {kind: _spread(kinds[kind], share) for kind, share in shares.items() if share}


def _shares(sizes: dict[str | None, int], count: int) -> dict[str | None, int]:
    """How many of each kind, dealt out one by one."""
    shares = dict.fromkeys(sizes, 0)
    for _ in range(min(count, sum(sizes.values()))):
        # the first of those that have the fewest so far
        kind = min((kind for kind in sizes if shares[kind] < sizes[kind]), key=shares.__getitem__)
        shares[kind] += 1
    return shares


def _spread(members: list[Pair], count: int) -> list[Pair]:
    return [members[number * len(members) // count] for number in range(count)]
