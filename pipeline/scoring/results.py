"""Score captions of prepared pairs, and write metrics.json and pairs.jsonl of a run."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipeline.datasets.schema import Pair
from pipeline.io.content_hashes import with_hashes
from pipeline.io.outputs import write_json, write_json_lines, write_text
from pipeline.scoring import accuracy, reversal
from pipeline.scoring.corpus import TOTAL, Scores, score
from pipeline.scoring.metric_names import (
    ACCURACY,
    AGREES,
    FAULTS,
    FITS,
    JUDGED,
    NOT_JUDGED,
    RIGHT,
    TRUE,
    summary,
)
from pipeline.scoring.sentences import agrees, readable
from pipeline.scoring.subsets import subsets
from pipeline.scoring.truth import UNREADABLE, Verdict, judge

Judge = Callable[[str, Pair, Sequence[str]], Verdict | None]
Agree = Callable[[str, Pair, Sequence[str]], bool | None]
STRICT: tuple[Judge, Agree] = (judge, agrees)
"""Functions that parse captions strictly and judge them: by the scene (first), by the references (second)."""

GEOMETRIC = "geometric"  # the grammar of captions that sentences.py parses
DIGITS = 6  # digits of written numbers; further digits of a logarithm differ between processors


@dataclass(frozen=True)
class Correctness:
    """Correctness of captions by pair id. Unknown values are None or missing."""

    judged: Mapping[str, dict[str, bool | None]]  # each of JUDGED
    faults: Mapping[str, str | None]  # the false parts of the caption, as letters of truth.FAULTS
    changed: Mapping[str, bool | None]  # True for a changed pair
    right: Mapping[str, bool | None]  # True if the caption is correct about change or no change
    change_accuracy: float | None  # the share of True in `right`
    attributes: Mapping[str, float | None]  # see accuracy.attributes
    scenes: Mapping[str, str]  # the scene, which several pairs may share
    not_judged: tuple[str, ...]  # pairs with captions of other programs that are not parseable
    reversible: Mapping[str, reversal.Agreement]  # captions of both image orders

    def shares(self, pair_ids: Iterable[str]) -> dict[str, float | None]:
        """Return metric -> share (0 to 1) over the pairs `pair_ids`, also for the metrics of reversal.py.

        A metric of JUDGED is left out if it is unknown for all pairs.
        """
        ids = list(pair_ids)
        known = [name for name in JUDGED if any(own[name] is not None for own in self.judged.values())]
        both_ways = reversal.shares(self.reversible[key] for key in ids if key in self.reversible)
        return {name: accuracy.share(self.judged[key][name] for key in ids) for name in known} | both_ways


UNKNOWN = Correctness({}, {}, {}, {}, None, {}, {}, (), {})


def score_pairs(
    captions: dict[str, str],
    pairs: Sequence[Pair],
    no_change_phrases: Sequence[str],
    meteor_timeout: float,
    tokeniser: str = "ptb",
    grammar: str | None = None,
    outside: bool = False,
    reader: tuple[Judge, Agree] = STRICT,
    exchanged: Mapping[str, str] | None = None,
) -> tuple[Scores, Correctness]:
    """Score one caption per pair, in total and in each subset, and check the correctness of each caption.

    `grammar`, `outside` and `reader`: see `correctness`. `exchanged` has the captions of the pairs with
    before and after image exchanged: pair id -> caption. Return the scores and the correctness.
    """
    references = {pair.pair_id: list(pair.captions) for pair in pairs}
    parts = subsets(pairs)
    scores = score(captions, references, parts, meteor_timeout, tokeniser)
    found = correctness(captions, pairs, no_change_phrases, grammar, outside, reader)
    agreements = {
        key: reversal.agreement(captions[key], text, grammar == GEOMETRIC, no_change_phrases)
        for key, text in (exchanged or {}).items()
    }
    found = replace(found, reversible=agreements)
    members = {TOTAL: list(references)} | parts
    judged = {name: found.shares(members[name]) | own for name, own in scores.subsets.items()}
    warnings = scores.warnings + unread(found.not_judged, captions)
    return replace(scores, subsets=judged, warnings=warnings), found


def unread(ids: Sequence[str], captions: Mapping[str, str]) -> list[str]:
    """Return a list with a warning that the captions of `ids` are not judged; [] if `ids` is empty."""
    if not ids:
        return []
    return [
        f"{len(ids):,} of {len(captions):,} captions are not parseable by the dataset's grammar and are not "
        f"judged (the first is of {ids[0]}: {captions[ids[0]][:80]!r}); true, fits, agrees and the "
        "attributes are shares of the other captions"
    ]


def correctness(
    captions: Mapping[str, str],
    pairs: Sequence[Pair],
    no_change_phrases: Sequence[str],
    grammar: str | None = None,
    outside: bool = False,
    reader: tuple[Judge, Agree] = STRICT,
) -> Correctness:
    """Check one caption per pair: by the scene if it is known, else by the references.

    The references are used only if `grammar` is GEOMETRIC. `reader` has the two functions that check a
    caption, by scene and by references. A caption that the dataset's grammar cannot parse is false. If
    `outside` is True (the model was not trained on this grammar), such a caption is not judged, unless it
    has no word.
    """
    right = {
        pair.pair_id: accuracy.right(captions[pair.pair_id], pair.changed, no_change_phrases)
        for pair in pairs
    }
    judged, agreeing = reader
    verdicts = {pair.pair_id: judged(captions[pair.pair_id], pair, no_change_phrases) for pair in pairs}
    agreed = {
        pair.pair_id: agreeing(captions[pair.pair_id], pair, no_change_phrases)
        for pair in pairs
        if grammar == GEOMETRIC and verdicts[pair.pair_id] is None
    }
    not_judged = _unreadable(captions, verdicts, agreed, no_change_phrases) if outside else []
    verdicts |= dict.fromkeys(not_judged)
    agreed |= dict.fromkeys(not_judged)
    return Correctness(
        {key: _judged(verdict, agreed.get(key)) for key, verdict in verdicts.items()},
        {key: verdict.faults if verdict else None for key, verdict in verdicts.items()},
        {pair.pair_id: pair.changed for pair in pairs},
        right,
        accuracy.share(right.values()),
        accuracy.attributes(captions, [pair for pair in pairs if pair.pair_id not in not_judged]),
        {pair.pair_id: pair.scene_id for pair in pairs},
        tuple(not_judged),
        {},
    )


def _unreadable(
    captions: Mapping[str, str],
    verdicts: Mapping[str, Verdict | None],
    agreed: Mapping[str, bool | None],
    phrases: Sequence[str],
) -> list[str]:
    """Return the ids of captions that have a word, and are false only because they are not parseable.

    `verdicts` are the judgements by scenes, and `agreed` the judgements by references.
    """
    found = [key for key, verdict in verdicts.items() if verdict and verdict.faults == UNREADABLE]
    found += [key for key, own in agreed.items() if own is False and not readable(captions[key], phrases)]
    return [key for key in found if re.search(r"\w", captions[key])]


def _judged(verdict: Verdict | None, agreed: bool | None) -> dict[str, bool | None]:
    if verdict is None:
        return {TRUE: None, FITS: None, AGREES: agreed}
    return {TRUE: verdict.true, FITS: verdict.fits, AGREES: None}


def write_metrics(
    path: str | Path,
    scores: Scores,
    truth: Correctness,
    localisation: Mapping[str, float] | None = None,
    references: str | None = None,
    summary_path: str | Path | None = None,
    hashes: Mapping[str, str] | None = None,
) -> None:
    """Write metrics.json to `path`, and summary.json to `summary_path` if this is given.

    The file summary.json has the few scores that `dvc metrics show` prints. Unknown values are left out.
    `references` describes how the references were chosen. `hashes`: see run_files.hashes_of_scored.
    """
    known = {
        ACCURACY: truth.change_accuracy,
        NOT_JUDGED: len(truth.not_judged) or None,
        "attributes": dict(truth.attributes),
        "localisation": dict(localisation or {}),
    }
    known = {name: value for name, value in known.items() if value not in (None, {})}
    scorers = scores.scorers | ({} if references is None else {"references": references})
    metrics = rounded(scores.subsets | scores.wording | known) | {"scorers": scorers}
    write_json(path, with_hashes(metrics, hashes or {}))
    if summary_path is not None:
        write_text(summary_path, json.dumps(summary(metrics), indent=1, allow_nan=False) + "\n")


def write_each(
    path: str | Path,
    scores: Scores,
    captions: dict[str, str],
    truth: Correctness,
    localisation: Mapping[str, dict[str, float | None]],
) -> None:
    """Write one JSON line per pair: truth, scores, and localisation of the attention."""
    lines = (
        {"pair_id": key, "scene_id": truth.scenes.get(key), "caption": captions[key]}
        | {"changed": truth.changed.get(key)}
        | truth.judged.get(key, dict.fromkeys(JUDGED))
        | {FAULTS: truth.faults.get(key)}
        | (reversal.named(truth.reversible[key]) if key in truth.reversible else {})
        | ({NOT_JUDGED: True} if key in truth.not_judged else {})
        | rounded(own | {RIGHT: truth.right.get(key)} | localisation.get(key, {}))
        for key, own in scores.pairs.items()
    )
    write_json_lines(path, lines)


def rounded(value: Any) -> Any:
    """Round each float of nested dictionaries and lists to DIGITS."""
    if isinstance(value, dict):
        return {key: rounded(own) for key, own in value.items()}
    if isinstance(value, list):
        return [rounded(own) for own in value]
    return round(value, DIGITS) if isinstance(value, float) else value
