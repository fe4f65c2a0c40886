"""The stages' own commands of a cell and what they leave, as dvc.yaml has them; nothing here asks DVC."""

import shlex
from pathlib import Path

from pipeline.io.inputs import read_yaml
from pipeline.study.job import Step
from pipeline.study.study_cells import Cell

METRICS = ("outs", "metrics")
OWN = "plan"
LIVE = "results/live"


def stages(cell: Cell) -> list[str]:
    """The stages that make a cell, in their order."""
    before = ["first"] * bool(cell.recipe.adapt) + ["retrieve"] * cell.recipe.entry.retrieves
    return ["start", *before, "train", "decode", "score"]


def targets(cell: Cell) -> list[str]:
    """The same as DVC calls them."""
    return [f"{stage}@{cell.dataset}-{cell.model}-{cell.seed}" for stage in stages(cell)]


def own_targets(cell: Cell) -> list[str]:
    """The stages that resolve its settings, and make its negatives."""
    found = [f"{OWN}@{cell.dataset}", f"recipe@{cell.dataset}-{cell.model}"]
    return found + [f"negatives@{cell.dataset}"] * cell.recipe.asks_negatives


def recipes(cell: Cell) -> list[str]:
    """The files in which its settings stand."""
    base = f"data/recipes/{cell.dataset}/{cell.model}"
    return [f"{base}.yaml", f"{base}.first.yaml"]


def negatives(cell: Cell) -> list[str]:
    """The file of its negatives, if it learns from some."""
    return [f"data/negatives/{cell.dataset}.jsonl"] * cell.recipe.asks_negatives


def steps(root: Path, cell: Cell) -> list[Step]:
    """What a job runs, by the dvc.yaml of `root`."""
    own = read_yaml(root / "dvc.yaml", "restore it with git")["stages"]
    return [_step(name, own[name], cell) for name in stages(cell)]


def live(cell: Cell) -> Path:
    """Where its training's curves grow."""
    return Path(LIVE, cell.dataset, cell.model, str(cell.seed))


def _step(name: str, stage: dict[str, object], cell: Cell) -> Step:
    outs: list[str] = []
    for kind in METRICS:
        listed = stage.get(kind, [])
        assert isinstance(listed, list)
        outs += [out if isinstance(out, str) else next(iter(out)) for out in listed]
    command = _filled(" ".join(str(stage["cmd"]).split()), cell, quoted=True)
    return Step(name, command, tuple(_filled(out, cell) for out in outs))


def _filled(text: str, cell: Cell, quoted: bool = False) -> str:
    for key in ("dataset", "model", "seed"):
        value = str(getattr(cell, key))
        text = text.replace(f"${{item.{key}}}", shlex.quote(value) if quoted else value)
    return text
