"""Kinds of change of training pairs, which MEDIC learns from.

The kind is the one that the dataset states (Pair.change_type). If it states none, the kind is read from the
pair's captions. They must all report the same kind, in sentences about coloured solids
(judging/strict.py).
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from models.common.trainable import KINDS
from pipeline.datasets.schema import NO_CHANGE, Pair
from pipeline.io.errors import InputError
from pipeline.judging.no_change import says_no_change, sentences_of
from pipeline.judging.strict import Sentence

UNKNOWN = -1


def number_of(pair: Pair) -> int:
    return KINDS.index(pair.change_type) if pair.change_type in KINDS else UNKNOWN


def with_kinds(pairs: Sequence[Pair], experts: Collection[str]) -> list[Pair]:
    """Return the pairs with their kinds, which must be among `experts`, as `change_type`.

    Without experts, the pairs are returned unchanged.
    """
    if not experts:
        return [*pairs]
    own, found = sentences_of(pairs), []
    for pair in pairs:
        kind = pair.change_type if pair.change_type in KINDS else read(pair, own)
        if kind not in experts:
            what = "an unknown kind of change" if kind is None else f"the kind of change {kind!r}"
            raise InputError(
                f"the pair {pair.pair_id!r} has {what}, and the model needs one of {', '.join(experts)}; "
                "state it in the dataset's files (the column `type` of pairs.csv), or choose another model"
            )
        found.append(replace(pair, change_type=kind))
    return found


def read(pair: Pair, own: Collection[str]) -> str | None:
    """Return the kind that all captions report, or None; `own`: the dataset's sentences of no change."""
    kinds: set[str] = set()
    for caption in pair.captions:
        sentence = Sentence.of(caption)
        if says_no_change(caption, own):
            kinds.add(NO_CHANGE)
        elif sentence.subject and sentence.claim.changes:
            kinds |= sentence.claim.changes
        else:
            return None
    if len(kinds) != 1 or (pair.changed and NO_CHANGE in kinds):
        return None
    return kinds.pop()
