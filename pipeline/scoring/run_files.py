"""Check that the files of a scored run, results/cells/DATASET/MODEL/SEED, belong together.

attention.npz names the weights, pairs and run of its captions. metrics.json names the same weights and run.
metrics.json also has the hashes of four files: captions, attention, pairs, and the scores per pair.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, FiniteFloat

from pipeline.decoding import attention_maps
from pipeline.io import content_hashes
from pipeline.io.errors import InputError
from pipeline.io.inputs import read_json
from pipeline.io.records import read_records
from pipeline.scoring.coco_files import read_results
from pipeline.scoring.metric_names import ROUGE_L, summary
from pipeline.weights import trained_model

DECODE, SCORE = "run `dvc repro decode` to make it", "run `dvc repro score` to make it"
AGAIN = "run `dvc repro score` to make it again"
ROUNDING = 1e-5  # greatest error of a mean of rounded scores
ATTENTION, CAPTIONS, METRICS, SUMMARY, PAIRS = (
    "attention.npz",
    "captions.json",
    "metrics.json",
    "summary.json",
    "pairs.jsonl",
)
SCORED = ("captions", "attention", "pairs", "per_pair")
"""Hashes in metrics.json, under the names of the arguments of stages.score and stages.constant."""
FILES = {"captions": CAPTIONS, "attention": ATTENTION, "per_pair": PAIRS}
"""Hash in metrics.json -> file in the same folder."""


class _Scored(BaseModel):
    """The keys of a line of pairs.jsonl that the checks need."""

    pair_id: str
    caption: str
    rouge_l: FiniteFloat = Field(alias="ROUGE-L")


def hashes_of_scored(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the hashes to write into metrics.json.

    They are the hashes of the scored files and of the scores per pair. If attention is scored, the hashes of
    the captions' weights and pairs, and the name of their run, are added. `arguments`: the command line of
    stages.score or stages.constant.
    """
    given = {name: arguments.get(name) for name in SCORED}
    found = {name: content_hashes.file_hash(path) for name, path in given.items() if path is not None}
    if given["attention"] is None:
        return found
    origin = attention_maps.read_origin(given["attention"])
    return found | {name: origin[name] for name in attention_maps.ORIGINS if name in origin}


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

    `pairs` is the dataset's file. `weights` is the folder of the run's weights; it may be missing. A file
    without a hash in metrics.json is not compared.
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
    if weights is not None and (weights / trained_model.FILE).is_file():
        content_hashes.check(metrics, found, "weights", weights / trained_model.FILE, AGAIN)
    shown = folder / SUMMARY
    if shown.exists():
        _demand(read_json(shown, SCORE) == summary(record), shown)


def check_per_pair(file: Path) -> None:
    """Raise InputError if the hash of a pairs.jsonl is not the hash in the same folder's metrics.json."""
    metrics = file.with_name(METRICS)
    if file.name == PAIRS and file.is_file() and metrics.is_file():
        found = content_hashes.read(metrics, read_json(metrics, SCORE), SCORE)
        content_hashes.check(metrics, found, "per_pair", file, AGAIN)


def check_captions(folder: Path, weights: Path) -> Mapping[str, Any]:
    """Return the run's summary. Raise InputError if a file belongs to other weights or captions.

    The contents of the files are compared, so files without hashes are checked, too.
    """
    said = {pair: each.caption for pair, each in attention_maps.read(folder / ATTENTION).items()}
    if attention_maps.read_origin(folder / ATTENTION).get("weights") != trained_model.sha256_of(weights):
        raise InputError(f"{folder / ATTENTION} was not made by {weights}; {AGAIN}")
    captions = read_results(folder / CAPTIONS, DECODE)
    _demand({pair: " ".join(own.split()) for pair, own in captions.items()} == said, folder / CAPTIONS)
    pairs = list(read_records(folder / PAIRS, _Scored, SCORE, "pair_id", "ignore"))
    _demand({pair.pair_id: pair.caption for pair in pairs} == captions, folder / PAIRS)
    metrics = read_json(folder / METRICS, SCORE)
    total = metrics.get("total", {}).get(ROUGE_L) if isinstance(metrics, dict) else None
    mean = sum(pair.rouge_l for pair in pairs) / max(1, len(pairs))
    _demand(isinstance(total, float) and abs(total - mean) <= ROUNDING, folder / METRICS)
    check_scores(folder, weights=weights)
    shown: Mapping[str, Any] = read_json(folder / SUMMARY, SCORE)
    _demand(shown == summary(metrics), folder / SUMMARY)
    return shown


def _run(file: Path) -> str | None:
    """Return DATASET/MODEL/SEED of a file in results/cells; None for a file elsewhere."""
    match file.absolute().parts:
        case (*_, "results", "cells", dataset, model, seed, _):
            return f"{dataset}/{model}/{seed}"
    return None


def _demand(holds: bool, file: Path) -> None:
    if not holds:
        raise InputError(f"{file} belongs to other captions than the other files of its folder; {AGAIN}")
