"""Judge captions that any program wrote.

Make a table of the shares of true captions with 95 % intervals, and a leaderboard row.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.datasets.schema import CHANGE_TYPES, NO_CHANGE, Pair
from pipeline.free_english.agreement import agreement
from pipeline.free_english.truth import judge_free, judged_claims
from pipeline.io.content_hashes import with_hashes
from pipeline.io.errors import InputError
from pipeline.reporting.tables import Table
from pipeline.scoring import truth
from pipeline.scoring.metric_names import FAULTS, FITS, TRUE
from pipeline.scoring.sentences import agrees, readable
from pipeline.scoring.truth import UNREADABLE, Verdict
from pipeline.statistics.bootstrap import Share, share

READERS = ("strict", "free")
DIGITS = 6


@dataclass(frozen=True)
class Answer:
    """A caption of a pair, with its verdict."""

    pair: Pair
    text: str
    verdict: Verdict

    @property
    def unreadable(self) -> bool:
        """True if the caption cannot be parsed."""
        return self.verdict.faults == UNREADABLE


def judged(
    texts: Mapping[str, str], pairs: Sequence[Pair], reader: str, phrases: Sequence[str]
) -> list[Answer]:
    """Judge the caption of each pair by the pair's scene, or by its references if the scene is unknown.

    texts: pair id -> caption
    reader: how captions are parsed, one of READERS
    phrases: texts that the strict reader accepts for "no change"

    Raises InputError for a pair that has neither a scene nor a kind of change.
    """
    found = []
    for pair in pairs:
        verdict = _verdict(texts[pair.pair_id], pair, reader, phrases)
        if verdict is None:
            raise InputError(
                f"pair {pair.pair_id} has no scene, and its references name no kind of change; score with "
                "python -m stages.score"
            )
        found.append(Answer(pair, texts[pair.pair_id], verdict))
    return found


def _verdict(text: str, pair: Pair, reader: str, phrases: Sequence[str]) -> Verdict | None:
    if reader == "free":
        return judge_free(text, pair) or agreement(text, pair)
    found = truth.judge(text, pair, phrases)
    agreed = None if found else agrees(text, pair, phrases)
    if agreed is None:
        return found
    faults = "" if agreed or readable(text, phrases) else UNREADABLE
    return Verdict(agreed, agreed, () if agreed else (text,), faults)


def parts(answers: Sequence[Answer]) -> dict[str, list[Answer]]:
    """Return the answers by table row, without empty rows: "all", "changed", kinds of change, "unchanged"."""
    kinds = {kind: [each for each in answers if each.pair.change_type == kind] for kind in CHANGE_TYPES}
    changed = [each for each in answers if each.pair.changed is not False]
    same = [each for each in answers if each.pair.change_type == NO_CHANGE]
    found = {"all": [*answers], "changed": changed} | kinds | {"unchanged": same}
    return {name: own for name, own in found.items() if own}


def _true(answers: Sequence[Answer]) -> Share:
    return share([each.verdict.true for each in answers], [each.pair.scene_id for each in answers])


def _unread(answers: Sequence[Answer]) -> Share:
    return share([each.unreadable for each in answers], [each.pair.scene_id for each in answers])


def table(answers: Sequence[Answer]) -> Table:
    """Return a table of the true captions in percent, with 95 % intervals over scenes."""
    title = "True captions in percent; intervals of 95 % over scenes"
    rows = []
    for name, own in parts(answers).items():
        true = _true(own)
        percent = f"{100 * true.value:.1f}"
        rows.append([name, str(true.number), percent, true.interval, f"{100 * _unread(own).value:.1f}"])
    faults = Counter(truth.FAULTS[letter] for each in answers for letter in each.verdict.faults)
    said = ", ".join(f"{name} {count:,}" for name, count in faults.most_common()) or "none"
    headings = ["pairs", "number", "true", "interval", "un-readable"]
    return Table(title, headings, rows, [f"faults (captions): {said}"])


def leaderboard_row(
    name: str, reader: str, split: str, answers: Sequence[Answer], hashes: Mapping[str, str]
) -> dict[str, Any]:
    """Return the row of a leaderboard: shares of true captions with 95 % intervals over scenes.

    hashes: name -> SHA-256 of a file, for the files of captions and pairs
    """
    by_scene = all(each.pair.scene is not None for each in answers)
    shares = {part: _written(_true(own)) for part, own in parts(answers).items()}
    changed = [each for each in answers if each.pair.changed is not False]
    faults = Counter(letter for each in changed for letter in each.verdict.faults)
    counted = {truth.FAULTS[letter]: round(count / len(changed), DIGITS) for letter, count in faults.items()}
    row = {
        "name": name,
        "reader": reader,
        "judged_by": "scene" if by_scene else "references",
        "split": split,
        "scenes": len({each.pair.scene_id for each in answers}),
        "true": shares,
        "unreadable": _written(_unread(answers)),
        "faults_of_changed": dict(sorted(counted.items())),
    }
    return with_hashes(row, hashes)


def _written(own: Share) -> dict[str, float]:
    bounds = {"value": own.value, "low": own.low, "high": own.high}
    return {name: round(number, DIGITS) for name, number in bounds.items()} | {"pairs": own.number}


def lines(answers: Sequence[Answer], reader: str) -> list[dict[str, Any]]:
    """Return a JSON object per caption, with judged claims if `reader` is "free" and the scene is known."""
    return [
        {
            "pair_id": each.pair.pair_id,
            "scene_id": each.pair.scene_id,
            "changed": each.pair.changed,
            "caption": each.text,
            TRUE: each.verdict.true,
            FITS: each.verdict.fits,
            FAULTS: each.verdict.faults,
            "wrong": list(each.verdict.wrong),
        }
        | ({"claims": _claims(each)} if reader == "free" and each.pair.scene else {})
        for each in answers
    ]


def _claims(answer: Answer) -> list[dict[str, str]]:
    return [
        {"kind": each.claim.kind, "text": each.claim.text, "verdict": each.verdict, FAULTS: each.faults}
        for each in judged_claims(answer.text, answer.pair)
    ]
