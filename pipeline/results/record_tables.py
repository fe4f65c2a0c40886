"""Tables of the records of a dataset: its runs, their scores, and the scores of their test pairs."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from pandas import DataFrame

from pipeline.io.errors import InputError
from pipeline.reporting.score_table import Column, of_subsets
from pipeline.results import records
from pipeline.results.records import CAPTIONS, FOLDER, PAIRS, REMEDY, Record
from pipeline.scoring.conditions import Conditions
from pipeline.scoring.metric_names import (
    ACCURACY,
    CIDER,
    RIGHT,
    TOTAL,
    TRUE,
    TRUE_CHANGED,
    TRUE_UNCHANGED,
)
from pipeline.statistics.bootstrap import MeanSd, over_seeds
from pipeline.statistics.evidence import Evidence, millionths

CHANCE = 0.1  # change accuracy of changed pairs; a model below is still at chance
COMPARED = (TRUE, TRUE_CHANGED, ACCURACY, CIDER)


@dataclass(frozen=True)
class Records:
    """Records of one dataset. Runs of one group differ only in the seed.

    `runs` has a row for each run: run, group, name, model, seed, changes (settings that differ from
    params.yaml) and record (the content of its JSON file). `pairs` has a row for each run and test pair:
    run, pair_id, changed, and the columns of the record's CSV file. `scores` is a table of scores
    (score_table.py) with the columns run, group and seed. `test` is the dataset's pairs.json.
    """

    dataset: str
    runs: DataFrame
    pairs: DataFrame
    scores: DataFrame
    test: Record

    def __len__(self) -> int:
        return len(self.runs)

    def where(self, chosen: "pd.Series[bool]") -> "Records":
        """Return only the runs for which `chosen`, a value for each row of `runs`, is true."""
        runs = self.runs[chosen]
        pairs, scores = (table[table["run"].isin(runs["run"])] for table in (self.pairs, self.scores))
        return replace(self, runs=runs, pairs=pairs, scores=scores)

    @cached_property
    def groups(self) -> "tuple[Records, ...]":
        """The records of each group."""
        by_group = self.runs.groupby("group", sort=False)
        return tuple(self.where(self.runs["run"].isin(runs["run"])) for _, runs in by_group)

    def by_seed(self) -> "Iterator[Records]":
        """Yield the records of each run."""
        for run in self.runs["run"]:
            yield self.where(self.runs["run"] == run)

    @cached_property
    def models(self) -> "Records":
        return self.where(self.runs["changes"].map(len) == 0)

    @cached_property
    def above_chance(self) -> "Records":
        """The groups whose change accuracy on changed pairs is at least CHANCE, so that they have learned."""
        learned = [
            group.runs["group"].iloc[0]
            for group in self.groups
            if (found := group.score(("change", ACCURACY))) and found.mean >= CHANCE
        ]
        return self.where(self.runs["group"].isin(learned))

    @property
    def name(self) -> str:
        return str(self.runs["name"].iloc[0])

    def score(self, column: Column) -> MeanSd | None:
        """Return a score over all runs; None if a run lacks it."""
        values = self.values(column)
        return over_seeds(values) if len(values) == len(self) else None

    def values(self, column: Column) -> list[float]:
        """Return a score of each run that has it."""
        return self._values.get(column, [])

    @cached_property
    def _values(self) -> dict[Column, list[float]]:
        by_column = self.scores.groupby(["subset", "metric"], sort=False)["value"]
        return {(str(subset), str(metric)): [*values] for (subset, metric), values in by_column}

    @cached_property
    def evidence(self) -> Evidence:
        """The input of a paired bootstrap: truth, change accuracy and CIDEr-D per pair and seed."""
        pairs = self.pairs.rename(columns={RIGHT: ACCURACY})
        pairs[TRUE_CHANGED] = pairs[TRUE].where(pairs["changed"])
        numbers = {
            metric: np.array([millionths(_known(run[metric])) for _, run in pairs.groupby("run", sort=False)])
            for metric in COMPARED
            if pairs[metric].notna().any()
        }
        ids = tuple(self.test["pairs"])
        hashes = (self.test["references"],) * len(ids)
        return Evidence(ids, numbers, tuple(self.test["scenes"]), self.conditions, hashes)

    @property
    def conditions(self) -> Conditions:
        """How the captions were scored. Records of one folder differ only in `changes`."""
        tokeniser = self.runs["changes"].iloc[0].get("score.tokeniser", "as in params.yaml")
        return Conditions(tokeniser=str(tokeniser))


def _known(values: "pd.Series[float]") -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]


def read(root: Path, dataset: str) -> Records:
    """Return a dataset's published records. `root` is the repository."""
    by_file, test = read_folder(root / FOLDER / dataset)
    return of_records(dataset, by_file, test)


def read_folder(path: Path) -> tuple[dict[Path, Record], Record]:
    """Return the records in a folder, file -> record, and its pairs.json; both empty without a record."""
    files = sorted(file for file in path.glob("*.json") if file.name != PAIRS)
    if not files:
        return {}, {}
    test = records.read_pairs_file(path / PAIRS)
    by_file = {file: records.read(file) for file in files}
    for file, record in by_file.items():
        if not _fits(record, test):
            raise InputError(f"{file} is of other test pairs than {path / PAIRS}; {REMEDY}")
    return by_file, test


def of_records(dataset: str, by_file: Mapping[Path, Record], test: Record) -> Records:
    """Return the tables of these records (file -> record). `test` is the content of their pairs.json."""
    described = [
        {
            "run": str(file),
            "group": json.dumps([record["model"], record["changes"]], sort_keys=True),
            "name": name_of(record),
            "model": record["model"],
            "seed": record["seed"],
            "changes": record["changes"],
            "record": record,
        }
        for file, record in by_file.items()
    ]
    runs = DataFrame(described, columns=["run", "group", "name", "model", "seed", "changes", "record"])
    first = {group: number for number, group in enumerate(dict.fromkeys(runs["group"]))}
    runs = runs.sort_values(["group", "seed"], key=lambda of: of.map(first) if of.name == "group" else of)
    if not len(runs):
        none = DataFrame(columns=["run", "group"])
        return Records(dataset, runs, none, none, test)
    changed = {test["pairs"][position] for position in test["subsets"].get("change", ())}
    tables = [records.read_scored_pairs(Path(run)).assign(run=run) for run in runs["run"]]
    pairs = pd.concat(tables, ignore_index=True)
    pairs["changed"] = pairs["pair_id"].isin(changed)
    for file, pair_ids in pairs.groupby("run", sort=False)["pair_id"]:
        if [*pair_ids] != test["pairs"]:
            raise InputError(f"{file} is of other test pairs than {Path(str(file)).parent / PAIRS}; {REMEDY}")
    stored = [
        of_subsets(
            run["record"]["scores"] | {"localisation": run["record"]["localisation"]},
            **{"run": run["run"]},
        )
        for run in runs.to_dict("records")
    ]
    scores = pd.concat([_shares(pairs, test["subsets"]), *stored], ignore_index=True)
    return Records(dataset, runs, pairs, runs[["run", "group", "seed"]].merge(scores, on="run"), test)


def _shares(pairs: DataFrame, subsets: Mapping[str, Sequence[int]]) -> DataFrame:
    """Return the table of scores with the shares of true captions, and change accuracy, of each subset."""
    ids = pairs["pair_id"][pairs["run"] == pairs["run"].iloc[0]].tolist()
    members = [(TOTAL, pair) for pair in ids]
    members += [(subset, ids[position]) for subset, positions in subsets.items() for position in positions]
    joined = DataFrame(members, columns=["subset", "pair_id"]).merge(pairs, on="pair_id")
    joined[TRUE_CHANGED] = joined[TRUE].where(joined["changed"])
    joined[TRUE_UNCHANGED] = joined[TRUE].where(~joined["changed"])
    joined[ACCURACY] = joined[RIGHT]
    shares = joined.groupby(["run", "subset"], sort=False)[
        [TRUE, TRUE_CHANGED, TRUE_UNCHANGED, ACCURACY]
    ].mean()
    long = shares.reset_index().melt(["run", "subset"], var_name="metric")
    return long[long["value"].notna()]


def name_of(record: Record) -> str:
    """Return the name of a record's group: model, and in brackets the differences from params.yaml."""
    differences = [f"{key.rsplit('.', 1)[-1]} {plain(value)}" for key, value in record["changes"].items()]
    return f"{record['model']} ({', '.join(differences)})" if differences else record["model"]


def _fits(record: Record, test: Record) -> bool:
    """Return True if a record has scores of all subsets of `test`, and keeps as many captions as it."""
    return (
        len(record[CAPTIONS]) == len(test[CAPTIONS])
        and {TOTAL, *test["subsets"]} <= set(record["scores"])
        and record["pairs"] == records.identity(test)
    )


def plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
