"""Captions of prepared pairs -> metrics.json: the one layout of every cell's scores."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.datasets.schema import Pair
from pipeline.outputs import write_json, write_json_lines
from pipeline.scoring.accuracy import change_accuracy
from pipeline.scoring.corpus import Scores, score
from pipeline.scoring.subsets import subsets

DIGITS = 6  # of what is written: beyond, processors differ in the last bits of a logarithm


def score_pairs(
    captions: dict[str, str], pairs: Sequence[Pair], no_change_phrases: Sequence[str], meteor_timeout: float
) -> tuple[Scores, float | None]:
    """The scores of one caption a pair, in total and by kind of change, and the change accuracy."""
    references = {pair.pair_id: list(pair.captions) for pair in pairs}
    scores = score(captions, references, subsets(pairs), meteor_timeout)
    changed = {pair.pair_id: pair.changed for pair in pairs}
    return scores, change_accuracy(captions, changed, no_change_phrases)


def write_metrics(
    path: str | Path,
    scores: Scores,
    accuracy: float | None,
    localisation: Mapping[str, float] | None = None,
) -> None:
    """Write metrics.json: {"total": {...}, ..., "change_accuracy": ..., "scorers": {...}}.

    `localisation` is written under its name, where there is any.
    """
    told = {} if accuracy is None else {"change_accuracy": accuracy}
    located = {"localisation": dict(localisation)} if localisation else {}
    write_json(path, rounded(scores.subsets | told | located) | {"scorers": scores.scorers})


def write_each(
    path: str | Path,
    scores: Scores,
    captions: dict[str, str],
    localisation: Mapping[str, dict[str, float | None]],
) -> None:
    """Write the scores of each pair, and of its attention where there are any, one JSON line a pair."""
    lines = (
        {"pair_id": key, "caption": captions[key]} | rounded(own | localisation.get(key, {}))
        for key, own in scores.pairs.items()
    )
    write_json_lines(path, lines)


def rounded(values: dict[str, Any]) -> dict[str, Any]:
    """Every number of a tree, rounded to what is written; None stays."""
    return {
        key: rounded(value) if isinstance(value, dict) else value if value is None else round(value, DIGITS)
        for key, value in values.items()
    }
