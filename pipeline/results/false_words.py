"""Count the false parts of each model's captions, such as a wrong colour.

Each kind of false part has a letter (verdicts.FAULTS). In the stacked bar diagram, the length of a
model's bar is its share of false captions among the changed pairs. The segments of a bar are the
kinds of false parts. Each false caption is divided equally: with two false parts, it adds half a
caption to each of two segments. The letter ANOTHER says that a false caption fits another object.
ANOTHER does not count as a false part in the diagram, and has its own column in the table.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from pipeline.judging.verdicts import ANOTHER, FAULTS, INVENTED
from pipeline.reporting.tables import number
from pipeline.results.record_tables import Records

NAMES = {letter: name for letter, name in FAULTS.items() if letter not in (ANOTHER, INVENTED)}
PARTS = tuple(NAMES)
HEADINGS = ["model", "true", *NAMES.values(), FAULTS[ANOTHER], "one part only", FAULTS[INVENTED]]


@dataclass(frozen=True)
class Faults:
    """Faults of all captions of a model's runs.

    The faults of a caption are a string, with one letter for each fault. The dictionary verdicts.FAULTS
    explains the letters. The string of a true caption is empty.
    """

    name: str  # of the model
    changed: Sequence[str]  # faults of each caption of a changed pair, over all runs
    unchanged: Sequence[str]

    @property
    def true(self) -> float:
        return self._mean(lambda letters: letters == "")

    def share(self, letter: str) -> float:
        """Return the share (0 to 1) of changed pairs whose caption has the fault `letter`.

        `letter` is a key of verdicts.FAULTS, which names the fault. For example, "c" is a false colour.
        """
        return self._mean(lambda letters: letter in letters)

    def split(self, part: str) -> float:
        """Return a false part's share of all captions of changed pairs. One of n parts counts 1/n."""
        return self._mean(lambda letters: (part in letters) / max(1, len(letters.replace(ANOTHER, ""))))

    @property
    def single(self) -> float | None:
        """Fraction of false captions with exactly one false part; None if no caption is false."""
        false = [letters.replace(ANOTHER, "") for letters in self.changed if letters]
        return fmean(len(letters) == 1 for letters in false) if false else None

    @property
    def invented(self) -> float | None:
        return fmean(INVENTED in letters for letters in self.unchanged) if self.unchanged else None

    def _mean(self, value: Callable[[str], float]) -> float:
        counts = Counter(self.changed)  # few different faults, many captions
        return fmean(map(value, counts), weights=counts.values())


def of_group(group: Records, dataset: str = "") -> Faults:
    """Return the faults of the captions of all runs in a group, named after `dataset` and group."""
    faults, changed = group.pairs["faults"], group.pairs["changed"]
    return Faults(f"{dataset} {group.name}".strip(), [*faults[changed]], [*faults[~changed]])


def row(faults: Faults) -> list[str]:
    """Return a model's table row in percent. Its columns are HEADINGS."""
    shares = [faults.share(letter) for letter in (*PARTS, ANOTHER)]
    return [faults.name, *map(number, [faults.true, *shares, faults.single, faults.invented])]
