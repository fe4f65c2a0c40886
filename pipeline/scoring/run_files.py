"""Check that the files of a scored run, results/cells/DATASET/MODEL/SEED, belong together.

attention.npz names the weights, pairs and run of its captions. metrics.json names the same weights and run,
and has the hashes of four files: captions, attention, pairs, and the scores per pair.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.decoding import attention_maps
from pipeline.io import content_hashes
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_json
from pipeline.scoring.metric_names import summary

DECODE, SCORE = "run `dvc repro decode` to make it", "run `dvc repro score` to make it"
AGAIN = "run `dvc repro score` to make it again"
CAPTIONS, METRICS, SUMMARY, PAIRS = "captions.json", "metrics.json", "summary.json", "pairs.jsonl"
FILES = {"captions": CAPTIONS, "attention": "attention.npz", "per_pair": PAIRS}
"""Hash in metrics.json -> file in the same folder."""
WEIGHTS = "weights.safetensors"  # as in trained_model.py, which this module does not import: it loads torch


def hashes_of_scored(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the hashes that metrics.json stores: name of a file -> hash.

    The files are those with captions, attention, pairs and scores per pair. `arguments`: the command line
    of stages.score or stages.constant. If it names an attention.npz, the values that this file records are
    added: the hashes of weights and pairs, and the name of the run.
    """
    given = {name: arguments.get(name) for name in (*FILES, "pairs")}
    found = {name: content_hashes.file_hash(path) for name, path in given.items() if path is not None}
    if given["attention"] is None:
        return found
    return found | attention_maps.read_origin(given["attention"])


def check_attention(attention: Path, pairs: Path) -> None:
    """Raise InputError if attention.npz has captions of another run or of other pairs."""
    origin = attention_maps.read_origin(attention)
    if (own := _run(attention)) and origin.get("run", own) != own:
        raise InputError(f"{attention} has captions of the run {origin['run']}; run `dvc repro decode` again")
    if "pairs" in origin and origin["pairs"] != content_hashes.file_hash(pairs):
        raise InputError(
            f"{attention} has captions of other pairs than {pairs}; run `dvc repro decode` again"
        )


def check_scores(folder: Path, pairs: Path | None = None, weights: Path | None = None) -> None:
    """Raise InputError if a file of a run's folder belongs to another run or was changed.

    `pairs`: the dataset's file of pairs; `weights`: the folder of the run's weights, which may be missing. A
    file without a hash in metrics.json is not compared.
    """
    metrics = folder / METRICS
    record = read_json(metrics, SCORE)
    found = content_hashes.read(metrics, record, SCORE)
    for name, file in FILES.items():
        content_hashes.check(metrics, found, name, folder / file, AGAIN)
    if pairs is not None:
        content_hashes.check(metrics, found, "pairs", pairs, AGAIN)
    if (own := _run(metrics)) and found.get("run", own) != own:
        raise InputError(f"{metrics} has the scores of the run {found['run']}; {AGAIN}")
    if weights is not None and (weights / WEIGHTS).is_file():
        content_hashes.check(metrics, found, "weights", weights / WEIGHTS, AGAIN)
    shown = folder / SUMMARY
    if shown.exists() and read_json(shown, SCORE) != summary(record):
        raise InputError(f"{shown} has other scores than {METRICS} in its folder; {AGAIN}")


def check_per_pair(file: Path) -> None:
    """Raise InputError if a pairs.jsonl does not have the hash that metrics.json in its folder states."""
    metrics = file.with_name(METRICS)
    if file.name == PAIRS and file.is_file() and metrics.is_file():
        found = content_hashes.read(metrics, read_json(metrics, SCORE), SCORE)
        content_hashes.check(metrics, found, "per_pair", file, AGAIN)


def _run(file: Path) -> str | None:
    """Return DATASET/MODEL/SEED of a file in results/cells; None for a file elsewhere."""
    match file.absolute().parts:
        case (*_, "results", "cells", dataset, model, seed, _):
            return f"{dataset}/{model}/{seed}"
    return None
