"""Accuracy of captions: change or no change, and the attributes of the changed object."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from pipeline.datasets.schema import Pair
from pipeline.scoring.no_change import says_no_change
from pipeline.scoring.tokenizer import one_line
from pipeline.tabletop.words import MEANINGS, NOUNS, VERB_PHRASES


def right(caption: str, changed: bool | None, own: Collection[str] = ()) -> bool | None:
    """Return True if the caption is right about change, None if unknown; `own`: sentences of no change."""
    return None if changed is None else says_no_change(caption, own) != changed


def share(answers: Iterable[bool | None]) -> float | None:
    """Return the share of True (0 to 1) among the answers that are not None; None if all answers are None."""
    judged = [answer for answer in answers if answer is not None]
    return sum(judged) / len(judged) if judged else None


def attributes(captions: Mapping[str, str], pairs: Sequence[Pair]) -> dict[str, float | None]:
    """Return shares (0 to 1) of captions with the true kind of change and attributes before it.

    Pairs with a known changed object count; {} without any. "type" is the verb phrase. For "size", "color",
    "material" and "shape", captions whose subject names the attribute count, and must name only the right
    value; None without any.
    """
    kinds: list[bool] = []
    correct: dict[str, list[bool | None]] = {attribute: [] for attribute in MEANINGS}
    for pair in pairs:
        changed = pair.changed_object
        if changed and (truth := changed.before or changed.after):
            kind, named = read(captions[pair.pair_id])
            kinds.append(kind == pair.change_type)
            for attribute, values in named.items():
                correct[attribute].append(values == {getattr(truth, attribute)} if values else None)
    if not kinds:
        return {}
    return {"type": share(kinds)} | {attribute: share(answers) for attribute, answers in correct.items()}


def read(caption: str) -> tuple[str | None, dict[str, set[str]]]:
    """Return (kind of change, attributes of the changed object) that a caption names.

    The attributes are a dictionary: name of an attribute -> values. They are read from the words up to
    the first noun. The kind is read from the end of the caption. It is None if the caption does not end
    in one of VERB_PHRASES. Case, white space and a final full stop do not matter.
    """
    text = one_line(caption).lower().rstrip(" .")
    words = text.split()
    end = next((position for position, word in enumerate(words) if word in NOUNS), -1) + 1
    named = {
        name: {values[word] for word in words[:end] if word in values} for name, values in MEANINGS.items()
    }
    kinds = (kind for phrase, kind in VERB_PHRASES.items() if f" {text}".endswith(f" {phrase}"))
    return next(kinds, None), named
