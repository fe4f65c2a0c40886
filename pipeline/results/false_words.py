"""Which part of false captions is false, for each model: the letters of truth.FAULTS, counted.

A bar of the stacked diagram is the share of false captions of changed pairs. A caption with several false
parts counts once, in equal shares. A caption that describes another object is counted separately, because
this is no single word of it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from pipeline.results.record_comparisons import Group
from pipeline.scoring.truth import ALSO, FAULTS, INVENTED, OTHER, SILENT, UNREADABLE

PARTS = tuple(letter for letter in FAULTS if letter not in (OTHER, INVENTED))
SHORT = FAULTS | {
    SILENT: "missed change",
    INVENTED: "false alarm",
    UNREADABLE: "not parseable",
    OTHER: "another object",
    ALSO: "ambiguous",
}
NAMES = {part: SHORT[part] for part in PARTS}
HEADINGS = ["model", "true", *NAMES.values(), SHORT[OTHER], "one part only", SHORT[INVENTED]]


@dataclass(frozen=True)
class Faults:
    """The false parts of one model's captions: for each seed and pair the letters; none where true."""

    name: str
    changes: tuple[Sequence[str], ...]
    others: tuple[Sequence[str], ...]  # of the pairs without a change

    @property
    def true(self) -> float:
        """The share of true captions of changed pairs."""
        return self._mean(lambda letters: letters == "")

    def share(self, letter: str) -> float:
        """Return the share of changed pairs whose caption has the fault, among others or not."""
        return self._mean(lambda letters: letter in letters)

    def split(self, part: str) -> float:
        """Return the same with each false caption counted once: these shares sum to the false captions."""
        return self._mean(lambda letters: (part in letters) / max(1, len(_parts(letters))))

    @property
    def single(self) -> float | None:
        """The share of false captions with one false part only; None where all are true."""
        false = [_parts(letters) for run in self.changes for letters in run if letters]
        return fmean(len(parts) == 1 for parts in false) if false else None

    @property
    def invented(self) -> float | None:
        """The share of false alarms on unchanged pairs; None where there is no such pair."""
        told = [INVENTED in letters for run in self.others for letters in run]
        return fmean(told) if told else None

    def _mean(self, value: Callable[[str], float]) -> float:
        return fmean(value(letters) for run in self.changes for letters in run)


def of_group(group: Group, dataset: str = "") -> Faults:
    """Return the faults of a group over all its seeds; the bar's name begins with the dataset, if given."""
    changes, others = (
        tuple([record["faults"][place] for place in group.pairs["subsets"][part]] for record in group.records)
        for part in ("change", "no_change")
    )
    return Faults(f"{dataset} {group.name}".strip(), changes, others)


def row(found: Faults) -> list[str]:
    """Return the cells below HEADINGS, in percent."""
    shares = [found.true, *(found.share(letter) for letter in (*PARTS, OTHER)), found.single, found.invented]
    return [found.name, *("–" if share is None else f"{100 * share:.1f}" for share in shares)]


def _parts(letters: str) -> str:
    return letters.replace(OTHER, "")
