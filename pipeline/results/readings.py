"""What each system is good at: numbers in a sentence, a reader's own sentence, and ten captions to read.

The reader's sentences stand in results/readings.yaml, model: sentence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.datasets.schema import CHANGE_TYPES
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_yaml
from pipeline.io.records import checked
from pipeline.results import false_words
from pipeline.results.record_comparisons import Group
from pipeline.scoring.metric_names import TRUE, TRUE_CHANGES
from pipeline.scoring.truth import FAULTS, OTHER

FILE = Path("results/readings.yaml")
HEADINGS = ["what it says", "judged", "one of the references"]


@dataclass(frozen=True)
class Reading:
    """One model on the first dataset that it has records of."""

    model: str
    text: str
    captions: list[list[str]]  # what stands below HEADINGS


def read(file: Path, models: Sequence[str]) -> dict[str, str]:
    """Model -> what a person says of it. Raises InputError where it is none of the recorded `models`."""
    if not file.exists():
        return {}
    remedy = "write `model: sentence`, or remove it"
    found = checked(dict[str, str], read_yaml(file, remedy) or {}, str(file), remedy)
    for model in found:
        if model not in models:
            raise InputError(
                f"{file}: results/records has nothing of {model!r}; remove it, or record that model "
                f"(there are {', '.join(models) or 'none'})"
            )
    return found


def readings(datasets: Sequence[Sequence[Group]], said: Mapping[str, str]) -> list[Reading]:
    """Of every model as params.yaml has it, in the groups' order."""
    first: dict[str, Group] = {}
    for groups in datasets:
        for group in groups:
            if not group.changes:
                first.setdefault(group.model, group)
    return [
        Reading(model, " ".join([_numbers(group), *([said[model]] if model in said else [])]), _ten(group))
        for model, group in first.items()
    ]


def _numbers(group: Group) -> str:
    """How much is true, where most, and what is false of the rest."""
    faults, true = false_words.of_group(group), group.score("total", TRUE_CHANGES).mean
    still = group.score("no_change", TRUE).mean
    kinds = [kind for kind in CHANGE_TYPES if kind in group.pairs["subsets"]]
    ordered = sorted(kinds, key=lambda kind: -group.score(kind, TRUE).mean)
    ends = [f"{kind} ({_hundred(group.score(kind, TRUE).mean)})" for kind in (ordered[0], ordered[-1])]
    found = f"On {group.dataset} {_hundred(true)} of 100 changes are told truly"
    found += f", most of {ends[0]} and fewest of {ends[1]}" if len(kinds) > 1 else ""
    found += f"; of 100 pairs without a change {_hundred(still)}."
    if faults.commonest and faults.single is not None:
        other = faults.share(OTHER) / (1 - faults.true)
        common, often = FAULTS[faults.commonest], _hundred(faults.share(faults.commonest))
        found += (
            f" Of 100 false captions of changes {_hundred(faults.single)} are false in one part alone and "
            f"{_hundred(other)} speak of another thing that is there; the commonest fault, of {often} in 100 "
            f"changes: {common}."
        )
    return found


def _ten(group: Group) -> list[list[str]]:
    """The captions that the first seed's record has, judged."""
    record = group.records[0]
    return [
        [caption, _judged(record["faults"][int(place)]), reference]
        for caption, (place, reference) in zip(
            record["captions"], group.pairs["captions"].items(), strict=True
        )
    ]


def _judged(letters: str) -> str:
    return "false: " + ", ".join(FAULTS[letter] for letter in letters) if letters else "true"


def _hundred(share: float) -> str:
    return f"{100 * share:.0f}"
