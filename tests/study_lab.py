"""A small repository for studies, and made-up runs."""

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from commands import study
from pipeline.config import resolving
from pipeline.datasets import manifest
from pipeline.datasets.manifest import Manifest
from pipeline.datasets.schema import Pair, write_pairs
from pipeline.io.content_hashes import with_hashes
from pipeline.io.outputs import write_json_lines
from pipeline.scoring.metric_names import CORPUS
from pipeline.scoring.subsets import QUARTILES
from pipeline.study import study_file, study_runs
from tests import project_params
from tests.scored import line, write

ROOT = Path(__file__).parents[1]
PAIRS = 20
# what dvc.lock holds of a prepared dataset
STAGES = {
    "prepare@tabletop": {
        "outs": [
            {"path": "data/pairs/tabletop.jsonl", "md5": "1"},
            {"path": "data/pairs/tabletop.manifest.json", "md5": "2"},
            {"path": "data/images/tabletop.jsonl", "md5": "3"},
        ]
    },
    "extract@tabletop-grid": {"outs": [{"path": "data/features/tabletop/grid.zarr", "md5": "fea7"}]},
    "vocab@tabletop": {"outs": [{"path": "data/vocab/tabletop.json", "md5": "5"}]},
}
STUDY = """
title: Two models
source: A paper, Table 1
datasets: [clevr_change]
rows:
  - {label: RR, model: rr, published: RR}
  - {label: SCORER, model: scorer, published: SCORER}
  - {label: SCORER again, model: scorer, set: {model.scorer.variant: paper}}
  - label: λ
    model: scorer
    set: {model.scorer.switches.mtm: per_head}
    times: {'dataset.{dataset}.loss.lambda_cv': 0.1}
"""


CODE_OF = cache(resolving.code_of)


def make_models_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hash the files of a model once for all tests of a process."""
    monkeypatch.setattr(resolving, "code_of", CODE_OF)


def make_repository(root: Path, studies: dict[str, str] | None = None) -> Path:
    """Make a repository with code, parameters, empty files as prepared data, and studies."""
    for name in ("models", "pipeline", "stages", "commands"):
        (root / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "dvc.yaml", root / "dvc.yaml")
    project_params.write(root)
    shutil.copytree(ROOT / "data/published", root / "data/published")
    (root / "dvc.lock").write_text(json.dumps({"stages": STAGES}))
    make_prepared(root)
    (root / "studies").mkdir()
    for name, text in (studies or {"two": STUDY}).items():
        (root / "studies" / f"{name}.yaml").write_text(text)
    return root


def make_prepared(root: Path) -> None:
    """Write the prepared data of tabletop: its pairs, and empty files."""
    made = [out["path"] for stage in STAGES.values() for out in stage["outs"]]
    for path in ("data/cards/tabletop.yaml", *made):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    make_pairs(root, "tabletop")
    manifest.write(root / "data/pairs/tabletop.manifest.json", Manifest("clevr_change", None, {}, {}))


def make_pairs(root: Path, dataset: str) -> None:
    write_pairs(root / f"data/pairs/{dataset}.jsonl", map(pair, range(PAIRS)))
    write_json_lines(root / f"data/images/{dataset}.jsonl", [])


def planned(root: Path, seeds: Sequence[int] = (1, 2), name: str = "two") -> list[study_runs.Planned]:
    """The runs of a study of such a repository."""
    return study_runs.plan(root, name, study_file.read(name, root / "studies"), "tabletop", seeds)


class Fake:
    """A workspace with made-up scores: CIDEr-D follows from model and seed."""

    def __init__(self, folder: Path, stop_at: int | None = None) -> None:
        self.folder, self.stop_at = folder, stop_at
        self.ran: list[tuple[str, int]] = []

    def do(self, run) -> None:
        if self.stop_at == len(self.ran):
            raise KeyboardInterrupt
        self.ran.append((run.name, run.seed))
        make_pairs(self.folder, run.dataset)
        curves = self.folder / "results/curves" / Path(*run.scores_folder.parts[2:])
        curves.mkdir(parents=True, exist_ok=True)
        (curves / "validation.csv").write_text("iteration,CIDEr-D,true/changed\n300,0.25,0.0\n600,0.5,0.1\n")
        write_run(self.folder / run.scores_folder, score_of(run.model, run.seed))


def pair(number: int) -> Pair:
    """Return a test pair; every second one has a change, and the view overlap grows with the number."""
    kind = "color" if number % 2 == 0 else "none"
    own = {"change_type": kind, "viewpoint_iou": number / PAIRS}
    return Pair(f"{number}.png", str(number), "test", "a", "b", ("x",), **own)


def score_of(model: str, seed: int) -> float:
    return {"rr": 0.5, "scorer": 0.9, "clip4idc": 0.4}.get(model, 0.6) + 0.01 * seed**2


def write_run(folder: Path, score: float, ids: Sequence[str] | None = None) -> None:
    """Write metrics.json and pairs.jsonl; `score` is CIDEr-D and the share of true captions."""
    folder.mkdir(parents=True, exist_ok=True)
    values = {"BLEU-1": 0.1, **dict.fromkeys(CORPUS, 0.3), "BLEU-4": 0.1, "METEOR": 0.2, "CIDEr-D": score}
    values["SPICE"] = None
    values["true"] = score
    parts = ("total", "change", "no_change", "color", *QUARTILES)
    metrics = dict.fromkeys(parts, values) | {"change_accuracy": 0.5, "scorers": {}}
    metrics["total"] = values | {"true/changed": score, "true/unchanged": score}
    (folder / "metrics.json").write_text(json.dumps(with_hashes(metrics, {})))
    even = [n % 2 == 0 for n in range(PAIRS)]
    told = [{"right": own, "changed": own, "true": own and n < PAIRS * score} for n, own in enumerate(even)]
    rows = [line(n) | {"CIDEr-D": score + 0.001 * (n % 2)} | told[n] for n in range(PAIRS)]
    for n, row in enumerate(rows):
        row |= {"caption": f"caption {n}", "faults": "" if row["true"] else "cs" if row["right"] else "t"}
    write(folder / "pairs.jsonl", rows)


def opening(fake: Fake):
    """Return a replacement of `workspace.opened` that yields the fake workspace."""

    @contextmanager
    def opened(root: Path, dataset: str, inputs: list[str]) -> Iterator[Fake]:
        yield fake

    return opened


def run_all(root: Path, missing, fake: Fake, place, commits: bool) -> list:
    """Replacement of `study._run` that makes up the runs one after the other."""
    for row, run in missing:
        fake.do(run)
        study._store_results(root, row, run, fake.folder)
    return []
