"""The scores of a run, by seed: only those of captions that the weights at hand said.

`decode` writes the hash of its weights into attention.npz, whose words are those of captions.json. The scores
of these captions are in pairs.jsonl, metrics.json and summary.json.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, FiniteFloat

from pipeline.decoding import attention_maps
from pipeline.errors import InputError, printable
from pipeline.inputs import read_json
from pipeline.recipes import trained_model
from pipeline.recipes.model_description import Trained
from pipeline.records import read_records
from pipeline.scoring.coco_files import read_results
from pipeline.scoring.metric_names import ROUGE_L
from pipeline.scoring.results import summary

DECODE, SCORE = "run `dvc repro decode` to make it", "run `dvc repro score` to make it"
AGAIN = "run `dvc repro score` to make it again"
ROUNDING = 1e-5  # of a mean of rounded scores
ATTENTION, CAPTIONS, METRICS, SUMMARY, PAIRS = (
    "attention.npz",
    "captions.json",
    "metrics.json",
    "summary.json",
    "pairs.jsonl",
)


class _Scored(BaseModel):
    """The needed keys of a line of pairs.jsonl."""

    pair_id: str
    caption: str
    rouge_l: FiniteFloat = Field(alias="ROUGE-L")


def read(trained: Trained, weights: Path, lab: Path) -> dict[int, Mapping[str, Any]]:
    """Return the summaries of the run's seeds; empty where it was not scored.

    Raises InputError where the scores of these weights' own seed are of other weights or captions. Those of
    another seed are left out then, with a note.
    """
    run = Path(trained.recipe.dataset, trained.recipe.model)
    found: dict[int, Mapping[str, Any]] = {}
    for file in sorted((lab / "results/cells" / run).glob(f"*/{SUMMARY}")):
        if not file.parent.name.isdecimal():
            continue
        seed = int(file.parent.name)
        own = seed == trained.seed
        try:
            found[seed] = _checked(file.parent, weights if own else lab / "data/weights" / run / str(seed))
        except InputError as error:
            if own:
                raise
            print(printable(f"note: the scores of seed {seed} are left out: {error}"), file=sys.stderr)
    return found


def _checked(cell: Path, weights: Path) -> Mapping[str, Any]:
    """The run's summary. Raises InputError naming the file that is of other weights or captions."""
    said, whose = attention_maps.of_weights(cell / ATTENTION)
    if whose != trained_model.sha256_of(weights):
        raise InputError(f"{cell / ATTENTION} was not made by {weights}; {AGAIN}")
    captions = read_results(cell / CAPTIONS, DECODE)
    _demand({pair: " ".join(caption.split()) for pair, caption in captions.items()} == said, cell / CAPTIONS)
    pairs = list(read_records(cell / PAIRS, _Scored, SCORE, "pair_id", "ignore"))
    _demand({pair.pair_id: pair.caption for pair in pairs} == captions, cell / PAIRS)
    metrics = read_json(cell / METRICS, SCORE)
    total = metrics.get("total", {}).get(ROUGE_L) if isinstance(metrics, dict) else None
    mean = sum(pair.rouge_l for pair in pairs) / max(1, len(pairs))
    _demand(isinstance(total, float) and abs(total - mean) <= ROUNDING, cell / METRICS)
    shown: Mapping[str, Any] = read_json(cell / SUMMARY, SCORE)
    _demand(shown == summary(metrics), cell / SUMMARY)
    return shown


def _demand(holds: bool, file: Path) -> None:
    if not holds:
        raise InputError(f"{file} is not of the same captions as the files beside it; {AGAIN}")
