"""Captions of prepared pairs -> metrics.json and pairs.jsonl: the one layout of every cell's scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.datasets.schema import Pair
from pipeline.outputs import write_json, write_json_lines
from pipeline.scoring import accuracy, attributes
from pipeline.scoring.corpus import Scores, score
from pipeline.scoring.subsets import subsets

DIGITS = 6  # of what is written: beyond, processors differ in the last bits of a logarithm


@dataclass(frozen=True)
class Told:
    """What the captions say, held against what happened; None and {} where that is not known."""

    right: dict[str, bool | None]  # id -> whether change or no change is told correctly
    change_accuracy: float | None  # the share of those
    attributes: dict[str, float | None]  # see attributes.accuracy


def score_pairs(
    captions: dict[str, str],
    pairs: Sequence[Pair],
    no_change_phrases: Sequence[str],
    meteor_timeout: float,
    tokeniser: str = "ptb",
) -> tuple[Scores, Told]:
    """The scores of one caption a pair, in total and by kind of change, and what is told correctly."""
    references = {pair.pair_id: list(pair.captions) for pair in pairs}
    scores = score(captions, references, subsets(pairs), meteor_timeout, tokeniser)
    return scores, told(captions, pairs, no_change_phrases)


def told(captions: dict[str, str], pairs: Sequence[Pair], no_change_phrases: Sequence[str]) -> Told:
    """What one caption a pair tells rightly."""
    right = {
        pair.pair_id: accuracy.right(captions[pair.pair_id], pair.changed, no_change_phrases)
        for pair in pairs
    }
    return Told(right, accuracy.share(right.values()), attributes.accuracy(captions, pairs))


def write_metrics(
    path: str | Path,
    scores: Scores,
    told: Told | None,
    localisation: Mapping[str, float] | None = None,
    references: str | None = None,
) -> None:
    """Write metrics.json: {"total": {...}, ..., "exact_match": ..., "scorers": {...}}.

    What is not known is left out: change_accuracy, attributes, localisation, and what the `references`
    are, which stands among the scorers.
    """
    known = {
        "change_accuracy": told.change_accuracy if told else None,
        "attributes": told.attributes if told else None,
        "localisation": dict(localisation or {}),
    }
    known = {name: value for name, value in known.items() if value not in (None, {})}
    scorers = scores.scorers if references is None else scores.scorers | {"references": references}
    write_json(path, rounded(scores.subsets | scores.wording | known) | {"scorers": scorers})


def write_each(
    path: str | Path,
    scores: Scores,
    captions: dict[str, str],
    told: Told | None,
    localisation: Mapping[str, dict[str, float | None]] | None = None,
) -> None:
    """Write the scores of each pair, and of its attention where there are any, one JSON line a pair."""
    right = told.right if told else {}
    located = localisation or {}
    lines = (
        {"pair_id": key, "caption": captions[key]}
        | rounded(own | {"right": right.get(key)} | located.get(key, {}))
        for key, own in scores.pairs.items()
    )
    write_json_lines(path, lines)


def rounded(value: Any) -> Any:
    """Every number of a tree, rounded to what is written."""
    if isinstance(value, dict):
        return {key: rounded(own) for key, own in value.items()}
    if isinstance(value, list):
        return [rounded(own) for own in value]
    return round(value, DIGITS) if isinstance(value, float) else value
