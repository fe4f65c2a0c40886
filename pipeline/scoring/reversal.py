"""Reversibility: a model should report the reverse change if the two images are exchanged.

`added` becomes `gone`, and `the red ball turned blue` becomes `the blue ball turned red`. Captions are
compared by their claims (sentences.py), so synonyms and the choice of attributes do not matter.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from pipeline.datasets.schema import CHANGE_TYPES, EXCHANGED
from pipeline.scoring.accuracy import PHRASES, says_no_change
from pipeline.scoring.metric_names import REVERSED
from pipeline.scoring.sentences import NONE, Claims, Sentence
from pipeline.scoring.truth import CHANGED


@dataclass(frozen=True)
class Agreement:
    """Agreement of two captions of a pair.

    One is the caption of (before, after). The other is the caption of (after, before), whose claims are
    reversed before the comparison.
    """

    change: bool  # both report a change, or both report none
    # the other values are None without a grammar
    kind: bool | None = None  # both report the same kind of change, or none
    object: bool | None = None  # `change`, and no attribute of the object has two values
    exact: bool | None = None  # kind and object agree, and so do old and new value


def reverse(said: Claims) -> Claims:
    """Return claims that describe the exchanged images: added and gone, old and new value are exchanged."""
    kinds = frozenset(EXCHANGED.get(kind, kind) for kind in said.kinds)
    look, value = dict(said.look), dict(said.value)
    for attribute in {CHANGED[kind] for kind in kinds if kind in CHANGED}:
        old, new = look.pop(attribute, NONE), value.pop(attribute, NONE)
        look |= {attribute: new} if new else {}
        value |= {attribute: old} if old else {}
    return Claims(kinds, look, value)


def agreement(
    caption: str, exchanged: str, grammar: bool = True, phrases: Sequence[str] = PHRASES
) -> Agreement:
    """Compare the caption of (before, after) with the caption `exchanged` of (after, before).

    `grammar` is True if sentences.py can parse the captions. Otherwise, only Agreement.change is known. A
    caption with one of `phrases` reports no change.
    """
    none = [says_no_change(text, phrases) for text in (caption, exchanged)]
    if not grammar or any(none):
        both = none[0] == none[1]
        return Agreement(both, both, both, both) if grammar else Agreement(both)
    sentences = Sentence.of(caption), Sentence.of(exchanged)
    one, other = sentences[0].claims, reverse(sentences[1].claims)
    kind = bool(one.kinds & {*CHANGE_TYPES}) and one.kinds == other.kinds
    same = all(each.subject for each in sentences) and not _two_values(one.look, other.look)
    return Agreement(True, kind, same, kind and same and not _two_values(one.value, other.value))


def named(agreement: Agreement) -> dict[str, bool]:
    """Return the fields of an agreement by their names in pairs.jsonl; fields that are None are left out."""
    return {f"{REVERSED}{name}": value for name, value in asdict(agreement).items() if value is not None}


def shares(found: Iterable[Agreement]) -> dict[str, float]:
    """Return metric -> share of pairs whose captions agree; {} without pairs.

    The metrics are the names that `named` gives to the fields of an agreement.
    """
    known = [named(each) for each in found]
    return {name: sum(each[name] for each in known) / len(known) for name in (known[0] if known else {})}


def _two_values(one: Mapping[str, frozenset[str]], other: Mapping[str, frozenset[str]]) -> bool:
    return any(other.get(name) and other[name] != own for name, own in one.items() if own)
