"""Score captions of prepared pairs, and write metrics.json and pairs.jsonl of a run."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipeline.datasets.schema import Pair
from pipeline.io.content_hashes import with_hashes
from pipeline.io.outputs import write_json, write_json_lines, write_text
from pipeline.judging.no_change import sentences_of
from pipeline.judging.strict import STRICT
from pipeline.judging.verdicts import UNPARSED, Verdict
from pipeline.scoring import accuracy, conditions, metric_names, reversal, routing
from pipeline.scoring.conditions import Conditions, Scope
from pipeline.scoring.corpus import Corpus, Scores, score_each
from pipeline.scoring.metric_names import (
    AGREES,
    BY_CHANGE,
    FAULTS,
    FITS,
    IS_UNREADABLE,
    JUDGED,
    TOTAL,
    TRUE,
)
from pipeline.scoring.subsets import subsets

Judge = Callable[[str, Pair], Verdict | None]
GEOMETRIC = "geometric"  # the grammar of captions that judging/strict.py parses
DIGITS = 6  # digits of written numbers; further digits of a logarithm differ between processors


@dataclass(frozen=True)
class Correctness:
    """Correctness of one caption per pair. Unknown values are None or missing.

    `pairs` maps a pair's id to the judgement of its caption, as {"true": False, "faults": "c"}.
    Each letter of "faults" is a key of verdicts.FAULTS; "c" is a wrong colour.
    `attributes` maps "type" to the share (0 to 1) of captions with the right kind of change. It maps
    "size", "color" and so on to the share of right values among the captions that name this attribute.
    """

    pairs: Mapping[str, dict[str, Any]]  # the truth of each pair, by the keys of pairs.jsonl
    right: Mapping[str, bool | None]  # True if the caption is correct about change or no change
    attributes: Mapping[str, float | None]  # see accuracy.attributes

    @property
    def change_accuracy(self) -> float | None:
        return accuracy.share(self.right.values())

    @property
    def unreadable(self) -> list[str]:
        return [pair_id for pair_id, truth in self.pairs.items() if truth[IS_UNREADABLE]]

    def shares(self, pair_ids: Iterable[str]) -> dict[str, float | None]:
        """Return metric -> share, 0 to 1, of these pairs; None if unknown for all of them."""
        truths = [self.pairs[pair_id] for pair_id in pair_ids]
        return {
            name: accuracy.share(truth.get(name) for truth in truths)
            for name in (*JUDGED, IS_UNREADABLE, *reversal.NAMES)
            if any(truth.get(name) is not None for truth in self.pairs.values())
        }

    def by_change(self) -> dict[str, float]:
        """Return the known shares of BY_CHANGE, such as true/changed: over the changed pairs only."""
        pairs = self.pairs.values()
        shares = {
            name: accuracy.share(truth.get(metric) for truth in pairs if truth["changed"] is changed)
            for name, (metric, changed) in BY_CHANGE.items()
        }
        return {name: share for name, share in shares.items() if share is not None}


UNKNOWN = Correctness({}, {}, {})
NO_TRUTH = dict.fromkeys(("scene_id", "changed", *JUDGED, FAULTS, IS_UNREADABLE))  # of a pair in pairs.jsonl


def score_pairs(
    captions: dict[str, str],
    pairs: Sequence[Pair],
    meteor_timeout: float,
    tokeniser: str,
    truth: Correctness,
) -> Scores:
    """Score one caption per pair, in total and in each subset.

    The scores include the shares of `truth.shares`, for example the share of true captions. A run of
    Java may take `meteor_timeout` seconds. `tokeniser` is a key of tokenizer.OF_SCORES.
    """
    (scores,) = score_each([corpus_of(captions, pairs)], meteor_timeout, tokeniser)
    return with_truth(scores, truth, pairs)


def corpus_of(captions: dict[str, str], pairs: Sequence[Pair]) -> Corpus:
    return Corpus(captions, {pair.pair_id: list(pair.captions) for pair in pairs}, subsets(pairs))


def with_truth(scores: Scores, truth: Correctness, pairs: Sequence[Pair]) -> Scores:
    """Add the shares of `truth.shares` to the scores of each subset."""
    members = {**subsets(pairs), TOTAL: [pair.pair_id for pair in pairs]}
    scores_with_truth = {
        name: truth.shares(members[name]) | values for name, values in scores.subsets.items()
    }
    scores_with_truth[TOTAL] = {**truth.by_change(), **scores_with_truth[TOTAL]}
    return replace(scores, subsets=scores_with_truth)


def unread(pair_ids: Sequence[str], captions: Mapping[str, str]) -> list[str]:
    """Return a list with one warning, which says how many captions are unreadable; [] if none is.

    pair_ids: the pairs whose captions cannot be parsed
    captions: pair id -> caption, for all pairs
    """
    if not pair_ids:
        return []
    return [
        f"{len(pair_ids):,} of {len(captions):,} captions are not parseable by the dataset's grammar and "
        f"count as false (the first is of {pair_ids[0]}: {captions[pair_ids[0]][:80]!r}); for free English, "
        "score them with --reader free"
    ]


def correctness(
    captions: Mapping[str, str],
    pairs: Sequence[Pair],
    grammar: str | None = None,
    reader: tuple[Judge, Judge] = STRICT,
    exchanged: Mapping[str, str] | None = None,
) -> Correctness:
    """Judge one caption per pair, and return the results.

    A caption is judged by the scene description of its pair. If the scene is unknown and `grammar` is
    GEOMETRIC, the caption is judged by the references. Otherwise its truth is unknown (None).

    A caption that cannot be parsed counts as false, and its pair is marked as unreadable.

    grammar: the grammar of the dataset's captions
    reader: two functions that judge a caption: the first by the scene, the second by the references
    exchanged: pair id -> caption of the pair with before and after image exchanged; the results then
        also say whether the two captions of a pair agree (reversal.py)
    """
    by_scene, by_references = reader
    truths: dict[str, dict[str, Any]] = {}
    right: dict[str, bool | None] = {}
    own = sentences_of(pairs)
    for pair in pairs:
        caption = captions[pair.pair_id]
        verdict, agreement = by_scene(caption, pair), None
        if verdict is None and grammar == GEOMETRIC:
            agreement = by_references(caption, pair)
        judgement = verdict or agreement
        truth = {
            "scene_id": pair.scene_id,
            "changed": pair.changed,
            TRUE: verdict.true if verdict else None,
            FITS: verdict.fits if verdict else None,
            AGREES: agreement.true if agreement else None,
            FAULTS: verdict.faults if verdict else None,
            IS_UNREADABLE: judgement.faults == UNPARSED if judgement else None,
        }
        if exchanged:
            both = caption, exchanged[pair.pair_id]
            truth |= reversal.named(reversal.agreement(*both, grammar == GEOMETRIC, own))
        truths[pair.pair_id] = truth
        right[pair.pair_id] = accuracy.right(caption, pair.changed, own)
    return Correctness(truths, right, accuracy.attributes(captions, pairs))


def metrics_of(
    scores: Scores,
    truth: Correctness,
    localisation: Mapping[str, float],
    protocol: str | None,
    scope: Scope,
    routed: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Return the content of metrics.json, without hashes of files. Scores that are unknown are left out.

    localisation: scores of the localisation by attention, for the whole split
    routed: shares of pairs with right routing (routing.Found), of a model with routers
    protocol: description of how the references were chosen
    """
    other_scores = {
        metric_names.ACCURACY: truth.change_accuracy,
        "attributes": dict(truth.attributes),
        "localisation": dict(localisation),
        routing.KEY: dict(routed or {}),
    }
    known_scores = {name: value for name, value in other_scores.items() if value not in (None, {})}
    scorers = scores.scorers | ({} if protocol is None else {"references": protocol})
    repeated = scores.repetition | scores.constants
    return rounded(scores.subsets | scores.wording | known_scores | repeated) | {
        "scorers": scorers,
        conditions.KEY: scope.described(scores.references),
    }


def write_metrics(
    path: str | Path, metrics: Mapping[str, Any], summary_path: str | Path | None, hashes: Mapping[str, str]
) -> None:
    """Write metrics.json with the files' hashes and, if a path is given, the main scores."""
    write_json(path, with_hashes(metrics, hashes))
    if summary_path is not None:
        summary = metric_names.summary(metrics)
        write_text(summary_path, json.dumps(summary, indent=1, allow_nan=False) + "\n")


def write_pair_scores(
    path: str | Path,
    scores: Scores,
    captions: dict[str, str],
    truth: Correctness,
    localisation: Mapping[str, dict[str, float | None]],
    scored_as: Conditions,
) -> None:
    """Write pairs.jsonl: one JSON line per pair with its caption, truth, scores and localisation.

    captions: pair id -> caption
    truth: judgements of the captions
    localisation: pair id -> measure -> score of the attention maps
    scored_as: tokeniser and reader of the captions, by which two such files may be compared
    """
    lines = (
        {"pair_id": pair_id, "scene_id": None, "caption": captions[pair_id]}
        | truth.pairs.get(pair_id, NO_TRUTH)
        | rounded(values | {metric_names.RIGHT: truth.right.get(pair_id)} | localisation.get(pair_id, {}))
        | {conditions.KEY: scored_as.described(), "references": scores.references[pair_id]}
        for pair_id, values in scores.pairs.items()
    )
    write_json_lines(path, lines)


def rounded(value: Any) -> Any:
    """Round each float of nested dictionaries and lists to DIGITS."""
    if isinstance(value, dict):
        return {key: rounded(member) for key, member in value.items()}
    if isinstance(value, list):
        return [rounded(member) for member in value]
    return round(value, DIGITS) if isinstance(value, float) else value
