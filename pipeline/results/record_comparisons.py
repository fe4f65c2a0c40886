"""Group records by dataset, model and changed settings, for means over seeds and for comparisons."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.io.errors import InputError
from pipeline.results import records
from pipeline.results.records import CAPTIONS, FOLDER, OF_PAIRS, PAIRS, REMEDY, Record
from pipeline.scoring.conditions import Conditions, of_phrases
from pipeline.scoring.metric_names import ACCURACY, CIDER, RIGHT, TRUE, TRUE_CHANGES
from pipeline.statistics.bootstrap import MeanSd, over_seeds
from pipeline.statistics.evidence import Evidence, millionths

Changes = Mapping[str, Any]
MARKED = {TRUE: TRUE, TRUE_CHANGES: TRUE, ACCURACY: RIGHT}  # metric -> key of the marks in a record
CHANCE = 0.1  # change accuracy of changed pairs; a model below is still at chance


@dataclass(frozen=True)
class Group:
    """Records of a model that differ only in the seed. `changes`: settings that differ from params.yaml."""

    dataset: str
    model: str
    changes: Changes
    records: tuple[Record, ...]
    pairs: Record  # the dataset's pairs.json

    @property
    def name(self) -> str:
        """Model, and in brackets the differences from params.yaml."""
        differences = [f"{key.rsplit('.', 1)[-1]} {plain(value)}" for key, value in self.changes.items()]
        return f"{self.model} ({', '.join(differences)})" if differences else self.model

    def by_seed(self) -> "list[Group]":
        """Split this group into groups of one seed."""
        return [replace(self, records=(record,)) for record in self.records]

    def score(self, subset: str, metric: str) -> MeanSd:
        """Return the mean ± sd over seeds of a metric on a subset of the test pairs, as a fraction.

        The metric TRUE_CHANGES counts only the changed pairs of the subset. CIDEr-D uses the document
        frequencies of the subset.
        """
        if metric in MARKED:
            positions = self.changed_positions(subset) if metric == TRUE_CHANGES else self.positions(subset)
            return over_seeds([_share(record[MARKED[metric]], positions) for record in self.records])
        return over_seeds([record["scores"][subset][metric] for record in self.records])

    @property
    def above_chance(self) -> bool:
        """True if the model's change accuracy on changed pairs is at least CHANCE.

        Otherwise, the model was not trained long enough.
        """
        return self.score("change", ACCURACY).mean >= CHANCE

    def positions(self, subset: str) -> Sequence[int]:
        """Return the indices, in the list of test pairs, of the pairs of a subset such as "total"."""
        return range(len(self.pairs["pairs"])) if subset == "total" else self.pairs["subsets"][subset]

    def changed_positions(self, subset: str) -> list[int]:
        """Return the indices, in the list of test pairs, of a subset's changed pairs."""
        changed = set(self.positions("change"))
        return [position for position in self.positions(subset) if position in changed]

    def pointing(self) -> MeanSd | None:
        """Return the share of changed pairs with the highest attention in the change box; None if unknown."""
        if any("pointing" not in record["localisation"] for record in self.records):
            return None
        return over_seeds([record["localisation"]["pointing"] for record in self.records])

    def evidence(self) -> Evidence:
        """Return the input of a paired bootstrap: truth, change accuracy and CIDEr-D per pair and seed."""
        pair_ids = tuple(self.pairs["pairs"])
        changed = set(self.positions("change"))
        values: dict[str, list[list[float | None]]] = {
            metric: [[float(mark == "1") for mark in record[key]] for record in self.records]
            for metric, key in MARKED.items()
        }
        values[TRUE_CHANGES] = [
            [mark if position in changed else None for position, mark in enumerate(marks)]
            for marks in values[TRUE]
        ]
        if not changed:
            del values[TRUE_CHANGES]
        values[CIDER] = [[thousandths / 1000 for thousandths in record[CIDER]] for record in self.records]
        numbers = {metric: np.array([millionths(run) for run in runs]) for metric, runs in values.items()}
        hashes = (self.pairs["references"],) * len(pair_ids)
        return Evidence(pair_ids, numbers, tuple(self.pairs["scenes"]), self.conditions, hashes)

    @property
    def conditions(self) -> Conditions:
        """How the records' captions were scored. Records of one folder differ only in `changes`."""
        phrases = self.changes.get("score.no_change_phrases")
        return Conditions(
            tokeniser=str(self.changes.get("score.tokeniser", "as in params.yaml")),
            no_change_phrases=None if phrases is None else of_phrases(phrases),
        )


def read(root: Path, dataset: str) -> list[Group]:
    """Return a dataset's published records in groups: the records of a group differ only in the seed.

    `root` is the repository. Raises InputError like `read_folder`.
    """
    by_file, pairs = read_folder(root / FOLDER / dataset)
    return groups([*by_file.values()], pairs)


def read_folder(path: Path) -> tuple[dict[Path, Record], Record]:
    """Return the records in a folder as file -> record, and the content of the folder's pairs.json.

    Both are empty if the folder has no record. Raises InputError for a damaged file, and for a record that
    was made from other pairs.
    """
    files = sorted(file for file in path.glob("*.json") if file.name != PAIRS)
    if not files:
        return {}, {}
    pairs = records.read_pairs_file(path / PAIRS)
    by_file = {file: records.read(file) for file in files}
    for file, record in by_file.items():
        if not _fits(record, pairs):
            raise InputError(f"{file} is of other test pairs than {path / PAIRS}; {REMEDY}")
    return by_file, pairs


def groups(dataset_records: Sequence[Record], pairs: Record) -> list[Group]:
    """Group the records of one dataset: the records of a group differ only in the seed.

    So all records of a group have the same model and the same changes to params.yaml. Each group also
    gets `pairs`, the dataset's pairs.json.
    """
    grouped: dict[str, list[Record]] = defaultdict(list)
    for record in dataset_records:
        grouped[json.dumps([record["model"], record["changes"]], sort_keys=True)].append(record)
    return [
        Group(
            members[0]["dataset"],
            members[0]["model"],
            members[0]["changes"],
            tuple(sorted(members, key=itemgetter("seed"))),
            pairs,
        )
        for members in grouped.values()
    ]


def _fits(record: Record, pairs: Record) -> bool:
    """Return True if `record` belongs to the test pairs in `pairs`, the content of a pairs.json.

    The record must have a value of each metric per test pair, and scores of all subsets. It must keep
    the texts of as many captions as `pairs` keeps references. If the record contains a hash of its
    pairs.json, the hash of `pairs` must be equal.
    """
    lengths = {len(record[name]) for name in OF_PAIRS}
    return (
        lengths == {len(pairs["pairs"])}
        and len(record[CAPTIONS]) == len(pairs[CAPTIONS])
        and {"total", *pairs["subsets"]} <= set(record["scores"])
        and record.get("pairs") in (None, records.identity(pairs))
    )


def _share(marks: str, positions: Sequence[int]) -> float:
    known_marks = [marks[position] for position in positions if marks[position] in "01"]
    return known_marks.count("1") / len(known_marks)


def plain(value: object) -> str:
    """Format a value as in YAML."""
    return str(value).lower() if isinstance(value, bool) else str(value)
