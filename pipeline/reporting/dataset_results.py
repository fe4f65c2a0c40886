"""Read the results of a dataset, for the runs that params.yaml lists."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import pandas as pd
from pandas import DataFrame
from pydantic import FiniteFloat

from pipeline.config.params import Params
from pipeline.datasets import manifest
from pipeline.datasets.images import Indexed, read_index
from pipeline.datasets.manifest import read_pairs
from pipeline.datasets.schema import NO_CHANGE, Pair, of_split
from pipeline.decoding import attention_maps
from pipeline.decoding.attention_maps import Attended
from pipeline.io.errors import InputError
from pipeline.io.records import read_record
from pipeline.reporting import paper_results, retrieval_results, run_curves
from pipeline.reporting.paper_results import PaperRow, PublishedRetrieval
from pipeline.reporting.retrieval_results import Figures
from pipeline.reporting.run_curves import Curve, read_curve
from pipeline.reporting.score_table import of_metrics
from pipeline.scoring import caption_files, conditions, run_files
from pipeline.scoring.metric_names import CIDER, CORPUS, TOTAL
from pipeline.statistics import pair_scores
from pipeline.statistics.evidence import Evidence
from pipeline.statistics.pair_scores import ScoredPair

REMEDY = "run `dvc repro` to make it"
PRETRAIN = "pretrain"  # folder with the curves of the phases before captioning
PhaseName = Literal["adapt", "images", "pretrain", "train"]  # as in recipes
"""images: pre-training on CUB's single images."""
Value = TypeVar("Value")
Plain = FiniteFloat | str | None
Metrics = dict[str, Plain | dict[str, Plain | dict[str, Plain]]]
"""Content of a metrics.json; scores are fractions."""


@dataclass(frozen=True)
class Curves:
    """Learning curves of a training phase."""

    losses: Curve  # unweighted terms; NaN for iterations of another task
    validation: Curve


@dataclass(frozen=True)
class ScoredRun:
    """A run (one model and one seed on one dataset) with its captions of the test pairs."""

    model: str
    seed: int
    metrics: dict[str, Any]
    captions: dict[str, str]  # by pair id
    scores: dict[str, ScoredPair]  # by pair id
    attended: dict[str, Attended]  # by pair id: only for the gallery's pairs, and for the first seed
    phases: dict[PhaseName, Curves]


@dataclass(frozen=True)
class Results:
    """The test pairs of a dataset, and the results of its runs.

    The constant caption is a baseline: one caption for all pairs, with the scores `constant`.
    """

    dataset: str
    test: list[Pair]
    root: Path  # folder of the images
    images: dict[str, Indexed]  # by name
    constant_caption: str
    constant: dict[str, Any]
    runs: list[ScoredRun]
    evidence: dict[str, Evidence]  # by model: the scores of each test pair, over the model's seeds
    gallery: dict[str | None, list[Pair]]  # by change type
    published: list[PaperRow]
    retrieval: dict[str, dict[int, Figures]]  # by model with a retrieval phase, and by seed
    searched: int  # number of validation pairs that the retrieval phase searches
    published_retrieval: list[PublishedRetrieval]

    @property
    def metrics(self) -> dict[str, dict[str, Any]]:
        return {f"{run.model} {run.seed}": run.metrics for run in self.runs}

    @property
    def scores(self) -> DataFrame:
        """Table of the scores of all runs; the constant caption comes first, and has no seed."""
        scored = [("constant", "", self.constant)]
        scored += [(run.model, str(run.seed), run.metrics) for run in self.runs]
        return pd.concat(
            [
                of_metrics(
                    metrics, dataset=self.dataset, run=f"{model}/{seed}".rstrip("/"), model=model, seed=seed
                )
                for model, seed, metrics in scored
            ],
            ignore_index=True,
        )


def read(root: Path, params: Params) -> list[Results]:
    return [_results(root, dataset, params) for dataset in params.datasets]


def _results(root: Path, dataset: str, params: Params) -> Results:
    path, index = (root / f"data/{part}/{dataset}.jsonl" for part in ("pairs", "images"))
    pairs = read_pairs(path)
    if not (test := of_split(pairs, "test")):
        raise InputError(f"{path} has no pair of the split test; {REMEDY} again")
    gallery = attention_maps.gallery(test, params.report.gallery)
    gallery_pairs = [pair for pairs in gallery.values() for pair in pairs]
    constant = root / "results/runs" / dataset / "constant"
    runs = [
        _scored_run(
            root, Path(dataset, model, str(seed)), test, gallery_pairs if seed == params.seeds[0] else []
        )
        for model in params.models
        for seed in params.seeds
    ]
    if manifest_path := manifest.path_of(path):
        manifest.check_files(manifest_path, manifest.read(manifest_path), path, index)
    run_files.check_scores(constant, path)
    for run in runs:
        name = Path(dataset, run.model, str(run.seed))
        run_files.check_scores(root / "results/runs" / name, path, root / "data/weights" / name)
        run_curves.check(root / "results/curves" / name, root / "data/weights" / name)
    published_folder = root / paper_results.FOLDER
    constant_metrics = read_metrics(constant / "metrics.json")
    named_metrics = {f"{run.model}/{run.seed}": run.metrics for run in runs}
    check_alike({"constant": constant_metrics} | named_metrics)
    return Results(
        dataset,
        test,
        root / params.of(dataset).prepare.root,
        {image.name: image for image in read_index(index)},
        read_captions(constant / "captions.json", test)[test[0].pair_id],
        constant_metrics,
        runs,
        {model: _evidence([run for run in runs if run.model == model]) for model in params.models},
        gallery,
        paper_results.rows(dataset, published_folder),
        _retrieved(root / "results/curves" / dataset, params, path),
        sum(pair.change_type != NO_CHANGE for pair in of_split(pairs, "val")),
        paper_results.retrieval(dataset, published_folder),
    )


def _retrieved(curves: Path, params: Params, pairs: Path) -> dict[str, dict[int, Figures]]:
    """Return model -> seed -> results, for the models with retrieval; `pairs`: file of the pairs."""
    figures: dict[str, dict[int, Figures]] = {}
    for model in params.models:
        for seed in params.seeds:
            folder = curves / model / PRETRAIN / str(seed)
            if (folder / retrieval_results.FIGURES_FILE).is_file():
                figures.setdefault(model, {})[seed] = retrieval_results.read(folder, pairs)
    return figures


def _evidence(runs: Sequence[ScoredRun]) -> Evidence:
    scores_by_run = {f"the scores of {run.model} {run.seed}": [*run.scores.values()] for run in runs}
    return pair_scores.evidence(scores_by_run)


def _scored_run(root: Path, name: Path, test: Sequence[Pair], gallery_pairs: Sequence[Pair]) -> ScoredRun:
    """Read the run `name` (dataset/model/seed), with the attention of the pairs `gallery_pairs`."""
    folder, curves = root / "results/runs" / name, root / "results/curves" / name.parent
    scores = {pair.pair_id: pair for pair in pair_scores.read_pairs(folder / "pairs.jsonl")}
    seed = int(name.name)
    return ScoredRun(
        name.parent.name,
        seed,
        read_metrics(folder / "metrics.json"),
        read_captions(folder / "captions.json", test),
        _with_all_pairs(folder / "pairs.jsonl", scores, test),
        read_attended(folder / "attention.npz", gallery_pairs) if gallery_pairs else {},
        read_phases(curves, seed),
    )


def read_metrics(path: Path) -> dict[str, Any]:
    """Read a metrics.json. Raises InputError if it is damaged, or has no number for a score of CORPUS."""
    tree: dict[str, Any] = read_record(path, Metrics, REMEDY, "ignore")
    total = tree.get(TOTAL)
    known = total if isinstance(total, dict) else {}
    if missing := [metric for metric in CORPUS if not isinstance(known.get(metric), float)]:
        raise _file_error(path, f"has no {missing[0]} of total")
    return tree


def check_alike(metrics: Mapping[str, Mapping[str, Any]]) -> None:
    """Raise InputError if two results were scored with different stated tokenisers or references."""
    for key in ("tokeniser", conditions.HASH):
        stated = {name: of.get(conditions.KEY, {}).get(key) for name, of in metrics.items()}
        known = {name: value for name, value in stated.items() if value is not None}
        first = next(iter(known), "")
        if other := next((name for name, value in known.items() if value != known[first]), None):
            raise InputError(
                f"{first} and {other} were scored with different {key.partition('_')[0].removesuffix('s')}s: "
                f"{known[first]!r} and {known[other]!r}; score both alike"
            )


def read_captions(path: Path, pairs: Sequence[Pair]) -> dict[str, str]:
    return _with_all_pairs(path, caption_files.read_results(path, REMEDY), pairs)


def read_attended(path: Path, pairs: Sequence[Pair]) -> dict[str, Attended]:
    """Read pair id -> attention from an attention.npz, for these pairs."""
    attended = _with_all_pairs(path, attention_maps.read(path), pairs)
    return {pair.pair_id: attended[pair.pair_id] for pair in pairs}


def read_phases(folder: Path, seed: int) -> dict[PhaseName, Curves]:
    """Return phase -> learning curves of one seed. `folder` has the curves of a model."""
    phases: dict[PhaseName, Curves] = {"train": _curves(folder / str(seed), CIDER)}
    pretraining_folder = folder / PRETRAIN / str(seed)
    if pretraining_folder.is_dir() and any(pretraining_folder.iterdir()):  # empty with imported weights
        pretraining = _curves(pretraining_folder)
        phases["adapt" if "retrieval" in pretraining.losses else "pretrain"] = pretraining
        if (pretraining_folder / "images").is_dir():
            phases["images"] = _curves(pretraining_folder / "images")
    return phases


def _curves(folder: Path, *scores: str) -> Curves:
    """Read the curves of a training phase; validation.csv must have the columns `scores`."""
    losses = read_curve(folder / "loss.csv", "iteration")
    return Curves(losses, read_curve(folder / "validation.csv", "iteration", *scores))


def _with_all_pairs(path: Path, values: dict[str, Value], pairs: Sequence[Pair]) -> dict[str, Value]:
    for pair in pairs:
        if pair.pair_id not in values:
            raise _file_error(path, f"lacks the test pair {pair.pair_id}")
    return values


def _file_error(path: Path, fault: str) -> InputError:
    return InputError(f"{path} {fault}; remove it and {REMEDY} again")
