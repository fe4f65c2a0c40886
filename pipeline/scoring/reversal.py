"""Reversibility: a model should report the reverse change if the two images are exchanged.

`added` becomes `gone`, and `the red ball turned blue` becomes `the blue ball turned red`. Captions are
compared by their claims (judging/strict.py), so synonyms and the choice of attributes do not matter.
"""

from collections.abc import Collection
from dataclasses import asdict, dataclass, fields

from pipeline.datasets.schema import CHANGE_TYPES, EXCHANGED
from pipeline.judging.no_change import says_no_change
from pipeline.judging.references import NONE, JointClaims, ValueSets, joint
from pipeline.judging.strict import Sentence
from pipeline.scoring.metric_names import REVERSED
from pipeline.tabletop.words import CHANGED


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


NAMES = [f"{REVERSED}{field.name}" for field in fields(Agreement)]


def reverse(claims: JointClaims) -> JointClaims:
    """Return the same claims about the exchanged images.

    "added" and "gone" are exchanged, and so are the old and the new value.
    """
    kinds = frozenset(EXCHANGED.get(kind, kind) for kind in claims.kinds)
    look, value = dict(claims.look), dict(claims.value)
    for attribute in {CHANGED[kind] for kind in kinds if kind in CHANGED}:
        old, new = look.pop(attribute, NONE), value.pop(attribute, NONE)
        look |= {attribute: new} if new else {}
        value |= {attribute: old} if old else {}
    return JointClaims(kinds, look, value)


def agreement(caption: str, exchanged: str, grammar: bool = True, own: Collection[str] = ()) -> Agreement:
    """Compare the caption of (before, after) with the caption `exchanged` of (after, before).

    `grammar` is True if judging/strict.py can parse the captions. Otherwise, only Agreement.change is known.
    `own` has the sentences of the dataset that report no change (no_change.sentences_of).
    """
    reports_none, exchanged_none = (says_no_change(text, own) for text in (caption, exchanged))
    if not grammar or reports_none or exchanged_none:
        same = reports_none == exchanged_none
        return Agreement(same, same, same, same) if grammar else Agreement(same)
    sentences = Sentence.of(caption), Sentence.of(exchanged)
    a, b = joint([sentences[0].claim]), reverse(joint([sentences[1].claim]))
    same_kind = bool(a.kinds & {*CHANGE_TYPES}) and a.kinds == b.kinds
    same_object = all(sentence.subject for sentence in sentences) and not _two_values(a.look, b.look)
    exact = same_kind and same_object and not _two_values(a.value, b.value)
    return Agreement(True, same_kind, same_object, exact)


def named(agreement: Agreement) -> dict[str, bool]:
    return {f"{REVERSED}{name}": value for name, value in asdict(agreement).items() if value is not None}


def _two_values(a: ValueSets, b: ValueSets) -> bool:
    return any(b.get(name) and b[name] != values for name, values in a.items() if values)
