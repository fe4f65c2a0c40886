"""Which part of the false captions is false, of each model: the letters of truth.FAULTS, counted.

A bar of the stacked diagram is what is told falsely of the changes. A caption of which several parts are
false counts once, in equal parts to each of them. That it speaks of another thing is counted beside, as that
is no word of it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from pipeline.results.record_comparisons import Group
from pipeline.scoring.truth import ALSO, FAULTS, INVENTED, OTHER, SILENT, UNREADABLE

PARTS = tuple(letter for letter in FAULTS if letter not in (OTHER, INVENTED))
SHORT = {SILENT: "says nothing", UNREADABLE: "no sentence", ALSO: "not it alone"}
NAMES = {part: SHORT.get(part, FAULTS[part]) for part in PARTS}
HEADINGS = ["", "true", *NAMES.values(), "of another thing", "one part alone", "told of no change"]


@dataclass(frozen=True)
class Faults:
    """What is false of one model's captions: of each seed, of each pair the letters; none where true."""

    name: str
    changes: tuple[Sequence[str], ...]
    others: tuple[Sequence[str], ...]  # of the pairs without a change

    @property
    def true(self) -> float:
        """Of the changes."""
        return self._mean(lambda letters: letters == "")

    def share(self, letter: str) -> float:
        """Of the changes whose caption has the fault, whatever else is false of it."""
        return self._mean(lambda letters: letter in letters)

    def split(self, part: str) -> float:
        """The same where each false caption counts once, its parts alike: these sum up to what is false."""
        return self._mean(lambda letters: (part in letters) / max(1, len(_parts(letters))))

    @property
    def single(self) -> float | None:
        """Of what is false the share of which one part alone is; None where all is true."""
        false = [_parts(letters) for run in self.changes for letters in run if letters]
        return fmean(len(parts) == 1 for parts in false) if false else None

    @property
    def invented(self) -> float | None:
        """Of the pairs without a change those of which one is told; None where there is no such pair."""
        told = [INVENTED in letters for run in self.others for letters in run]
        return fmean(told) if told else None

    @property
    def commonest(self) -> str | None:
        """The part that is false most often."""
        return max(PARTS, key=self.share) if self.true < 1 else None

    def _mean(self, value: Callable[[str], float]) -> float:
        return fmean(value(letters) for run in self.changes for letters in run)


def of_group(group: Group, dataset: str = "") -> Faults:
    """Of all the seeds of a dataset's records; what the bar is called begins with the dataset."""
    changes, others = (
        tuple([record["faults"][place] for place in group.pairs["subsets"][part]] for record in group.records)
        for part in ("change", "no_change")
    )
    return Faults(f"{dataset} {group.name}".strip(), changes, others)


def row(found: Faults) -> list[str]:
    """What stands below HEADINGS, in percent."""
    shares = [found.true, *(found.share(letter) for letter in (*PARTS, OTHER)), found.single, found.invented]
    return [found.name, *("–" if share is None else f"{100 * share:.1f}" for share in shares)]


def _parts(letters: str) -> str:
    return letters.replace(OTHER, "")
