"""Accuracy of captions: change or no change, and the attributes of the changed object."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from pipeline.datasets.schema import Pair
from pipeline.judging.no_change import says_no_change
from pipeline.judging.references import joint
from pipeline.judging.strict import Sentence
from pipeline.tabletop.words import MEANINGS


def right(caption: str, changed: bool | None, own: Collection[str] = ()) -> bool | None:
    """Return True if the caption is right about change, None if unknown; `own`: sentences of no change."""
    return None if changed is None else says_no_change(caption, own) != changed


def share(answers: Iterable[bool | None]) -> float | None:
    """Return the share of True (0 to 1) among the answers that are not None; None if all answers are None."""
    judged = [answer for answer in answers if answer is not None]
    return sum(judged) / len(judged) if judged else None


def attributes(captions: Mapping[str, str], pairs: Sequence[Pair]) -> dict[str, float | None]:
    """Return shares (0 to 1) of captions that name the true kind of change and the true attributes.

    Only pairs with a known changed object are counted; {} if there is none. The keys of the result are:

    - "type": share of captions that name the true kind of change
    - "size", "color", "material" and "shape": share of captions whose subject names the right value and
      no other value. Captions whose subject does not name the attribute are not counted. None if no
      caption names it.

    The right value is that of the changed object before the change. For an added object, it is the
    value after the change.
    """
    kinds: list[bool] = []
    correct: dict[str, list[bool | None]] = {attribute: [] for attribute in MEANINGS}
    for pair in pairs:
        changed = pair.changed_object
        if changed and (truth := changed.before or changed.after):
            named = joint([Sentence.of(captions[pair.pair_id]).claim])
            kinds.append(named.kinds == {pair.change_type})
            for attribute, answers in correct.items():
                values = named.look.get(attribute)
                answers.append(values == {getattr(truth, attribute)} if values else None)
    if not kinds:
        return {}
    return {"type": share(kinds)} | {attribute: share(answers) for attribute, answers in correct.items()}
