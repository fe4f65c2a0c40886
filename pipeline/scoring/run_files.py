"""Check that the files of a scored run, results/runs/DATASET/MODEL/SEED, belong together.

attention.npz names the weights, pairs and run of its captions. metrics.json names the same weights and run,
and has the hashes of four files: captions, attention, pairs, and the scores per pair.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.decoding import attention_maps
from pipeline.io import content_hashes
from pipeline.io.content_hashes import verify
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
    """Return file -> hash of what was scored, and the origin that an attention.npz records."""
    paths = {name: arguments.get(name) for name in (*FILES, "pairs")}
    hashes = {name: content_hashes.file_hash(path) for name, path in paths.items() if path is not None}
    if paths["attention"] is None:
        return hashes
    return hashes | attention_maps.read_origin(paths["attention"])


def check_attention(attention: Path, pairs: Path) -> None:
    """Raise InputError if attention.npz has the captions of another run, or of another file of pairs.

    The path of the file `attention` names the run, and `pairs` is the path of the pairs' file.
    """
    origin = attention_maps.read_origin(attention)
    verify(attention, origin, "run `dvc repro decode` again", run=_run(attention), pairs=pairs)


def check_scores(folder: Path, pairs: Path | None = None, weights: Path | None = None) -> None:
    """Raise InputError if a file of a run's folder belongs to another run or was changed.

    `pairs`: the dataset's file of pairs; `weights`: the folder of the run's weights, which may be missing. A
    file without a hash in metrics.json is not compared.
    """
    metrics, files = folder / METRICS, {role: folder / file for role, file in FILES.items()}
    trained = weights / WEIGHTS if weights is not None and (weights / WEIGHTS).is_file() else None
    hashes = content_hashes.read(metrics, SCORE)
    verify(metrics, hashes, AGAIN, run=_run(metrics), **files, pairs=pairs, weights=trained)
    summary_file = folder / SUMMARY
    if summary_file.exists() and read_json(summary_file, SCORE) != summary(read_json(metrics, SCORE)):
        raise InputError(f"{summary_file} has other scores than {METRICS} in its folder; {AGAIN}")


def check_per_pair(file: Path) -> None:
    """Raise InputError if a pairs.jsonl does not have the hash that metrics.json in its folder states."""
    metrics = file.with_name(METRICS)
    if file.name == PAIRS and file.is_file() and metrics.is_file():
        verify(metrics, content_hashes.read(metrics, SCORE), AGAIN, per_pair=file)


def _run(file: Path) -> str | None:
    """Return DATASET/MODEL/SEED of a file in results/runs; None for a file elsewhere."""
    match file.absolute().parts:
        case (*_, "results", "runs", dataset, model, seed, _):
            return f"{dataset}/{model}/{seed}"
    return None
