"""Judge captions that any program wrote.

Make a table of the shares of true captions with 95 % intervals, and a leaderboard row.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.datasets.schema import CHANGE_TYPES, NO_CHANGE, Pair
from pipeline.free_english.judging import FREE, judged_claims
from pipeline.io.content_hashes import with_hashes
from pipeline.io.errors import InputError
from pipeline.judging import verdicts
from pipeline.judging.strict import STRICT
from pipeline.judging.verdicts import UNPARSED, Verdict
from pipeline.reporting.tables import Table, number
from pipeline.scoring.answer_text import answer_of
from pipeline.scoring.metric_names import FAULTS, FITS, TRUE
from pipeline.statistics.bootstrap import Share, share

Judge = Callable[[str, Pair], Verdict | None]
READERS: dict[str, tuple[Judge, Judge]] = {"strict": STRICT, "free": FREE}
DIGITS = 6


@dataclass(frozen=True)
class JudgedAnswer:
    """A caption of a pair, with its verdict."""

    pair: Pair
    text: str  # without what is around the answer; "" if there is no answer
    verdict: Verdict

    @property
    def unreadable(self) -> bool:
        return self.verdict.faults == UNPARSED

    @property
    def is_missing(self) -> bool:
        """True if the program gave no answer: a null, an empty text, or thoughts that do not end."""
        return not self.text

    @property
    def unnamed(self) -> bool:
        """True if the caption is false, and the judge does not say what is false in it."""
        return not self.verdict.true and not self.verdict.faults


def judged(texts: Mapping[str, str], pairs: Sequence[Pair], reader: str) -> list[JudgedAnswer]:
    """Judge the caption of each pair by the pair's scene, or by its references if the scene is unknown.

    texts: pair id -> caption, or output of a language model, in which the answer is found (answer_text.py)
    reader: how captions are parsed, one of READERS
    """
    by_scene, by_references = READERS[reader]
    answers = []
    for pair in pairs:
        text = answer_of(texts[pair.pair_id])
        verdict = by_scene(text, pair) or by_references(text, pair)
        if verdict is None:
            raise InputError(
                f"pair {pair.pair_id} has no scene, and its references name no kind of change; score with "
                "python -m stages.score"
            )
        answers.append(JudgedAnswer(pair, text, verdict))
    return answers


def parts(answers: Sequence[JudgedAnswer]) -> dict[str, list[JudgedAnswer]]:
    """Return table row ("all", "changed", kinds of change, "unchanged") -> its answers, if it has any."""
    kinds = {kind: [answer for answer in answers if answer.pair.change_type == kind] for kind in CHANGE_TYPES}
    changed = [answer for answer in answers if answer.pair.changed is not False]
    unchanged = [answer for answer in answers if answer.pair.change_type == NO_CHANGE]
    by_row = {"all": [*answers], "changed": changed} | kinds | {"unchanged": unchanged}
    return {name: members for name, members in by_row.items() if members}


def _true_share(answers: Sequence[JudgedAnswer]) -> Share:
    return share([answer.verdict.true for answer in answers], [answer.pair.scene_id for answer in answers])


def _unreadable_share(answers: Sequence[JudgedAnswer]) -> Share:
    return share([answer.unreadable for answer in answers], [answer.pair.scene_id for answer in answers])


def table(answers: Sequence[JudgedAnswer]) -> Table:
    """Return a table of the share of true captions, in percent with 95 % intervals over scenes."""
    title = "True captions in percent; intervals of 95 % over scenes"
    rows = []
    for name, part_answers in parts(answers).items():
        true_share, unreadable = _true_share(part_answers), _unreadable_share(part_answers)
        percent = number(true_share.value)
        rows.append([name, str(true_share.number), percent, true_share.interval, number(unreadable.value)])
    faults = Counter(verdicts.FAULTS[letter] for answer in answers for letter in answer.verdict.faults)
    fault_counts = ", ".join(f"{name} {count:,}" for name, count in faults.most_common()) or "none"
    notes = [f"faults (captions): {fault_counts}"]
    if unnamed := sum(answer.unnamed for answer in answers):
        notes = notes if faults else []
        notes.append(
            f"no faults are named for {unnamed:,} false captions: the strict reader compares them with "
            "references as a whole"
        )
    headings = ["pairs", "number", "true", "interval", "un-readable"]
    return Table(title, headings, rows, notes)


def leaderboard_row(
    name: str, reader: str, split: str, answers: Sequence[JudgedAnswer], hashes: Mapping[str, str]
) -> dict[str, Any]:
    """Return a leaderboard's row: shares of true captions with 95 % intervals over scenes.

    `hashes` are SHA-256 of the files of captions and pairs. `faults_of_changed` is None if the reader finds
    no faults. `missing` counts the pairs without an answer.
    """
    by_scene = all(answer.pair.scene is not None for answer in answers)
    shares = {part: _rounded(_true_share(part_answers)) for part, part_answers in parts(answers).items()}
    changed = [answer for answer in answers if answer.pair.changed is not False]
    faults = Counter(letter for answer in changed for letter in answer.verdict.faults)
    fault_shares = {
        verdicts.FAULTS[letter]: round(count / len(changed), DIGITS) for letter, count in faults.items()
    }
    are_unnamed = any(answer.unnamed for answer in changed)
    row = {
        "name": name,
        "reader": reader,
        "judged_by": "scene" if by_scene else "references",
        "split": split,
        "scenes": len({answer.pair.scene_id for answer in answers}),
        "true": shares,
        "unreadable": _rounded(_unreadable_share(answers)),
        "missing": sum(answer.is_missing for answer in answers),
        "faults_of_changed": None if are_unnamed else dict(sorted(fault_shares.items())),
    }
    return with_hashes(row, hashes)


def _rounded(true_share: Share) -> dict[str, float]:
    bounds = {name: round(getattr(true_share, name), DIGITS) for name in ("value", "low", "high")}
    return bounds | {"pairs": true_share.number}


def lines(answers: Sequence[JudgedAnswer], reader: str) -> list[dict[str, Any]]:
    """Return a JSON object per caption: ids, `changed` of the pair, text and verdict.

    If `reader` is "free" and the scene is known, the object also has the judged claims of the caption.
    """
    return [
        {
            "pair_id": answer.pair.pair_id,
            "scene_id": answer.pair.scene_id,
            "changed": answer.pair.changed,
            "caption": answer.text,
            TRUE: answer.verdict.true,
            FITS: answer.verdict.fits,
            FAULTS: answer.verdict.faults,
            "wrong": list(answer.verdict.wrong),
        }
        | ({"claims": _claims(answer)} if reader == "free" and answer.pair.scene else {})
        for answer in answers
    ]


def _claims(answer: JudgedAnswer) -> list[dict[str, str]]:
    return [
        {
            "kind": judged_claim.claim.kind,
            "text": judged_claim.claim.text,
            "verdict": judged_claim.verdict,
            FAULTS: judged_claim.faults,
        }
        for judged_claim in judged_claims(answer.text, answer.pair) or ()
    ]
