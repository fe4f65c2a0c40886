"""Small records of finished runs, from which the results pages are made.

FOLDER contains the published records, which are in git. OWN contains a user's own records, in a subfolder
that is named after the hash of the prepared data. A record is two files with one name. The JSON file has the
model, its settings, scores by subset and validation curves. The CSV file has a line per test pair: the truth,
the false parts and the metrics of its caption.
"""

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pandas as pd
from pandas import DataFrame
from pydantic import BaseModel

from pipeline.config.params import Params
from pipeline.datasets.manifest import read_pairs
from pipeline.datasets.schema import CHANGE, CHANGE_TYPES, NO_CHANGE, Pair, of_split
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_bytes, read_json, read_lines, read_text
from pipeline.io.outputs import write_text
from pipeline.io.provenance import sha256
from pipeline.io.records import read_record
from pipeline.judging.verdicts import FAULTS as LETTERS
from pipeline.reporting.run_curves import read_curve
from pipeline.scoring import conditions
from pipeline.scoring.metric_names import CORPUS, FAULTS, RIGHT, TRUE
from pipeline.scoring.subsets import subsets
from pipeline.statistics import pair_scores
from pipeline.study.study_file import Tree
from pipeline.study.study_runs import Run

FOLDER = Path("results/records")
OWN = Path("results/own/records")
PAIRS = "pairs.json"
CAPTIONS = "captions"
LONGEST = 120  # characters of the changes in a file name; systems allow 255 in total
MOST_PAIRS = 1_000  # pairs of a test split; more would make a record too large
KEPT_CAPTIONS = 10  # number of captions that are kept as text
MARKS = (TRUE, RIGHT)  # columns of the CSV file that are 1, 0, or empty if unknown
DIGITS = 3  # decimals of the metrics in the CSV file
CURVES = ("CIDEr-D", "true", "true/changed")  # columns of validation.csv
MOST = 10.0  # highest CIDEr-D, and so highest score
REMEDY = "restore it with git, or remove it and run the study again"
Record = dict[str, Any]


class RunFile(BaseModel):
    """Content of a record's JSON file.

    `changes` has the settings that differ from params.yaml: key -> value. `settings` is a hash of the
    settings that determine the results. `pairs` is a hash of pairs.json. `train` has the settings of the
    phase `train`: iterations, batch size, etc. `validation` has curves: score -> iteration -> value.
    """

    dataset: str
    model: str
    seed: int
    changes: dict[str, Any]
    settings: str
    pairs: str
    train: dict[str, Any]
    scores: dict[str, dict[str, float]]
    localisation: dict[str, float]
    validation: dict[str, dict[str, float]]
    captions: list[str]


class PairsFile(BaseModel):
    """Content of a pairs.json: test pairs, their scenes, a hash of their references, positions of subsets.

    `captions` has references of KEPT_CAPTIONS of the pairs.
    """

    pairs: list[str]
    scenes: list[str]
    references: str
    viewpoint_iou: list[float | None]
    subsets: dict[str, list[int]]
    captions: dict[str, str]


def name(model: str, changes: Mapping[str, Any], seed: int) -> str:
    """Return the file name of a published record: model, changed settings (text and hash), seed."""
    differences = "".join(f"-{key.rsplit('.', 1)[-1]}={value}" for key, value in sorted(changes.items()))
    suffix = f"{differences[:LONGEST]}-{sha256(json.dumps(changes, sort_keys=True))[:8]}" if changes else ""
    return re.sub(r"[^\w.=-]", "_", f"{model}{suffix}-{seed}") + ".json"


def name_of(record: Mapping[str, Any]) -> str:
    return name(record["model"], record["changes"], record["seed"])


def own_name_of(record: Mapping[str, Any]) -> str:
    return f"{name_of(record).removesuffix('.json')}.{record['settings']}.json"


def path(root: Path, run: Run, changes: Tree) -> Path:
    """Return the path of the user's own record of a run; `root` contains data/ and results/own/records/."""
    fields = {"model": run.model, "changes": changes, "seed": run.seed, "settings": settings(run)}
    return root / OWN / run.dataset / data(root, run.dataset) / own_name_of(fields)


def data(root: Path, dataset: str) -> str:
    """Return a hash of the prepared pairs, and of the index of images, which contains the images' hashes."""
    files = (root / f"data/{part}/{dataset}.jsonl" for part in ("pairs", "images"))
    return sha256(*(read_bytes(file) if file.exists() else b"" for file in files))[:16]


def settings(run: Run) -> str:
    """Return a hash of the settings that determine the results of a run. It does not cover the code."""
    params, recipe = Params.model_validate(run.params), asdict(run.recipe)
    del recipe["code"]
    recipe |= recipe.pop("phases")  # each is a section of the settings, too
    # empty values and defaults are left out, so that a new setting keeps older records valid
    recipe = {key: value for key, value in recipe.items() if value not in (None, {}, [], ())}
    is_rendered = run.dataset in params.tabletop.viewpoint
    rendered = params.tabletop.of(run.dataset).model_dump(exclude_defaults=True) if is_rendered else None
    precision = params.features_of(run.dataset).precision
    # both_ways changes no caption; a gate that no label opens is that of records without the setting
    unused = {"both_ways", *(() if params.decode.labelled_gate else ("labelled_gate",))}
    decode = params.decode.model_dump(exclude=unused)
    deciding_values = [recipe, run.seed, rendered, precision, decode, params.score.model_dump()]
    return sha256(json.dumps(deciding_values, sort_keys=True).encode())[:16]


def write(root: Path, run: Run, changes: Tree, workspace: Path) -> Path | None:
    """Write a run's record to the user's own records in `root`; None if it has over MOST_PAIRS test pairs.

    `changes`: full key -> value that differs from params.yaml. `workspace`: folder with the run's data and
    results.
    """
    pairs = _test_pairs(workspace, run.dataset)
    if len(pairs) > MOST_PAIRS:
        return None
    lines = _scored(workspace / run.scores_folder / "pairs.jsonl", pairs)
    metrics = read_json(workspace / run.scores_folder / "metrics.json", REMEDY)
    record = {
        "dataset": run.dataset,
        "model": run.model,
        "seed": run.seed,
        "changes": changes,
        "settings": settings(run),
        "data": data(workspace, run.dataset),
        "pairs": identity(described(pairs)),
        "key": run.key,
        "train": run.recipe.phases["train"],
        "scores": {
            name: {metric: round(metrics[name][metric], 4) for metric in CORPUS}
            for name in ("total", *subsets(pairs))
        },
        "attributes": metrics.get("attributes", {}),
        "localisation": metrics.get("localisation", {}),
        "validation": _curves(
            workspace / "results/curves" / Path(*run.scores_folder.parts[2:]) / "validation.csv"
        ),
        CAPTIONS: [lines[position]["caption"] for position in caption_positions(pairs)],
    }
    folder = root / OWN / run.dataset / record["data"]
    save(folder / PAIRS, described(pairs))
    columns = ["pair_id", *MARKS, FAULTS, *CORPUS]
    table = DataFrame([{name: line[name] for name in columns} for line in lines], columns=columns)
    table[[*MARKS]] = table[[*MARKS]].astype("Int8")
    # quoted, so that a pair's id may have any character
    text = table.round(DIGITS).to_csv(index=False, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    write_text(pairs_path(folder / own_name_of(record)), text)
    save(folder / own_name_of(record), record)
    return folder / own_name_of(record)


def _scored(path: Path, pairs: Sequence[Pair]) -> list[Record]:
    scored_ids = {pair.pair_id for pair in pair_scores.read_pairs(path)}
    if missing_id := next((pair.pair_id for pair in pairs if pair.pair_id not in scored_ids), None):
        raise InputError(f"{path} lacks the test pair {missing_id}; run `dvc repro score` to make it again")
    scored = {line["pair_id"]: line for line in map(json.loads, read_lines(path, REMEDY))}
    return [scored[pair.pair_id] for pair in pairs]


def _test_pairs(root: Path, dataset: str) -> list[Pair]:
    return of_split(read_pairs(root / f"data/pairs/{dataset}.jsonl"), "test")


def _curves(path: Path) -> dict[str, dict[str, float]]:
    curve = read_curve(path, "iteration")
    iterations = [str(round(number)) for number in curve["iteration"]]
    return {
        name: {iteration: round(value, 4) for iteration, value in zip(iterations, curve[name], strict=True)}
        for name in CURVES
        if iterations and name in curve
    }


def caption_positions(pairs: Sequence[Pair]) -> list[int]:
    """Return the positions of pairs whose captions are kept as text; the kinds of change take turns."""
    kinds: dict[str, list[int]] = {kind: [] for kind in (*CHANGE_TYPES, CHANGE, NO_CHANGE)}
    for position, pair in enumerate(pairs):
        kinds[pair.change_type or CHANGE].append(position)
    turns = zip_longest(*kinds.values())
    return [position for turn in turns for position in turn if position is not None][:KEPT_CAPTIONS]


def prepared(root: Path, dataset: str) -> Record:
    return _prepared(root, dataset, data(root, dataset))


@lru_cache(maxsize=8)
def _prepared(root: Path, dataset: str, _: str) -> Record:
    return described(_test_pairs(root, dataset))


def identity(described: Record) -> str:
    return sha256(json.dumps(described, sort_keys=True))[:16]


def described(pairs: Sequence[Pair]) -> Record:
    """Return the pairs.json of these test pairs; `captions` are first references, by `caption_positions`."""
    positions = {pair.pair_id: position for position, pair in enumerate(pairs)}
    members = {name: [positions[pair_id] for pair_id in ids] for name, ids in subsets(pairs).items()}
    overlaps = [pair.viewpoint_iou for pair in pairs]
    captions = {str(position): pairs[position].captions[0] for position in caption_positions(pairs)}
    return {
        "pairs": list(positions),
        "scenes": [pair.scene_id for pair in pairs],
        "references": conditions.of_all(conditions.of_pairs({pair.pair_id: pair.captions for pair in pairs})),
        "viewpoint_iou": overlaps,
        "subsets": members,
        CAPTIONS: captions,
    }


def save(path: Path, tree: Record) -> None:
    """Write `tree` as JSON with a key per line, for readable diffs, and without other white space."""
    lines = [f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in tree.items()]
    write_text(path, "{" + ",\n".join(lines) + "}\n")


def read(path: Path) -> Record:
    """Return the content of a record's JSON file. Raises InputError if the file is damaged."""
    read_record(path, RunFile, REMEDY, "ignore")
    record: Record = read_json(path, REMEDY)
    return record


def pairs_path(path: Path) -> Path:
    return path.with_suffix(".csv")


def read_scored_pairs(path: Path) -> DataFrame:
    """Return the CSV file of a record, whose JSON file is `path`: a row per test pair.

    `true` and `right` are 1, 0 or NaN. `faults` has letters of verdicts.FAULTS; it is NaN where `true` is.
    Raises InputError if the file is damaged.
    """
    file = pairs_path(path)
    text = read_text(file, REMEDY)
    try:
        table = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)
        numbers = table.drop(columns=["pair_id", FAULTS])
        numbers[[*MARKS]] = numbers[[*MARKS]].replace("", "nan")
        numbers = numbers.astype(float)
        marks, scores = numbers[[*MARKS]], numbers.drop(columns=[*MARKS])
    except (ValueError, KeyError) as error:  # pandas' ParserError is a ValueError
        reason = " ".join(str(error).split())[:LONGEST]
        raise InputError(f"{file} cannot be read ({reason}); {REMEDY}") from None
    are_marks = (marks.isna() | marks.isin([0, 1])).all(axis=None) and set("".join(table[FAULTS])) <= {
        *LETTERS
    }
    if not are_marks or not (scores.ge(0) & scores.le(MOST)).all(axis=None):
        raise InputError(f"{file} has a score or judgement that is none; {REMEDY}")
    table[[*numbers]] = numbers
    table[FAULTS] = table[FAULTS].where(numbers[TRUE].notna())
    return table


def read_pairs_file(path: Path) -> Record:
    """Return a pairs.json as a dictionary with the keys of PairsFile, after checking it."""
    pairs = read_record(path, PairsFile, REMEDY, "ignore")
    if len(pairs.scenes) != len(pairs.pairs):
        raise InputError(f"{path}: {len(pairs.pairs)} pairs have {len(pairs.scenes)} scenes; {REMEDY}")
    if any(
        not 0 <= position < len(pairs.pairs) for positions in pairs.subsets.values() for position in positions
    ):
        raise InputError(f"{path}: a subset has an unknown pair; {REMEDY}")
    return dict(pairs)
