"""The documented commands change nothing that git tracks, except dvc.lock, params.yaml and metrics.

The commands are those that test_commands.py finds in the two pages. DVC and the training of a study's runs
are replaced by stand-ins that leave scores, as finished runs do.
"""

import re
import subprocess
from contextlib import chdir
from itertools import chain
from pathlib import Path

import pytest

from commands import record, results, study
from pipeline.config import recipe_file
from pipeline.io.inputs import read_yaml
from pipeline.io.outputs import yaml_of
from tests import project_params, shipped
from tests.makefile import making
from tests.running import ROOT, stage
from tests.study_lab import Fake, make_models_once, make_prepared, opening, run_all
from tests.test_commands import WHOLE, calls, commands, made_calls

TRACKED = ("datasets.yaml", "dvc.yaml", "dvc.lock", "params.yaml", ".gitignore")
TRACKED += ("studies", "docs", "data/cards", "data/published", "results/records", "results/runs")
CODE = ("models", "pipeline", "stages", "commands", "demo")
CHANGED_BY_DVC = re.compile(r"dvc\.lock|params\.yaml|results/runs/.*/(metrics|summary)\.json")
# commands that read images, weights or a program that is not here, and write where their arguments say
ELSEWHERE = {
    "caption",
    "demo",
    "extract",
    "import_checkpoint",
    "import_clip",
    "parts",
    "probe",
    "train",
    "truth",
}
DVC = ("dvc", "repro")
SMALL = {"tabletop__scenes": 200, "dataset__tabletop__train__iterations": 60}


@pytest.fixture(scope="module")
def documented(tmp_path_factory):
    """Documented stages and commands, each once, between two runs of DVC; no promotion."""
    made = making(tmp_path_factory.mktemp("made"))
    lines = chain.from_iterable(commands(page.read_text(encoding="utf-8"), whole=True) for page in WHOLE)
    found: list[tuple[str, ...]] = []
    for words in chain.from_iterable(map(calls, lines)):
        each = made_calls(made(*words[1:])) if words[0] == "make" else [words]
        found += [_short(one) for one in each]
    stages = [one for one in dict.fromkeys(found) if _stage(one) not in ("", *ELSEWHERE)]
    assert {"study", "record", "results", "report", "errors", "score"} <= set(map(_stage, stages))
    return [DVC, *(one for one in stages if "--promote" not in one), DVC]


def _short(words: list[str]) -> tuple[str, ...]:
    """A command without what a page leaves out, and with the first of a study's seeds."""
    seeds = words.index("--seeds") + 1 if "--seeds" in words else len(words)
    kept = words[: seeds + 1] + [word for word in words[seeds + 1 :] if not word.isdigit()]
    return tuple(word for word in kept if word != "…")


def _stage(words: tuple[str, ...]) -> str:
    package, _, name = words[2].partition(".") if words[:2] == ("python", "-m") else ("", "", "")
    return name if package in ("stages", "commands") else ""


@pytest.fixture
def lab(tmp_path):
    """A repository with the tracked files of this project and few records, and an edited params.yaml."""
    shipped.copy(tmp_path, *TRACKED)
    for path in (tmp_path / "results/records").rglob("*.json"):
        if path.parent.name != "tabletop" or not re.fullmatch(r"rr-.|pairs", path.stem):
            path.unlink()
    for name in CODE:
        (tmp_path / name).symlink_to(ROOT / name)
    for path in (tmp_path / "studies").glob("*.yaml"):
        if "rows" in (tree := read_yaml(path, "")):
            path.write_text(yaml_of(tree | {"rows": tree["rows"][:2]}))
    project_params.write(tmp_path)
    with chdir(tmp_path):
        results.write()
    git(tmp_path, "init", "-qb", "main")
    git(tmp_path, "add", "-A")
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "all")
    project_params.write(tmp_path, **SMALL)
    make_prepared(tmp_path)
    (tmp_path / "data/raw/my_pairs").mkdir(parents=True)
    (tmp_path / "data/raw/my_pairs/pairs.csv").write_text("before,after,caption\na.png,b.png,a car is gone\n")
    return tmp_path


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(("git", *arguments), cwd=root, check=True, capture_output=True, text=True).stdout


def run(root: Path, words: tuple[str, ...]) -> None:
    if words != DVC:
        assert stage(root, (_stage(words), *words[3:])).returncode in (0, 1, 2)
        return
    # `dvc repro` leaves scores, curves and recipes of the runs, and another dvc.lock
    (root / "dvc.lock").write_text((root / "dvc.lock").read_text() + "# run\n")
    for run in record.runs(root):
        Fake(root).do(run)
        recipe = root / f"data/recipes/{run.dataset}/{run.model}/{run.seed}/recipe.yaml"
        recipe_file.save(recipe, run.recipe)


def changed(root: Path, done: list[tuple[str, ...]]) -> list[str]:
    """Lines of `git status`, without the files that DVC changes or that a command names as its output."""
    named = {word for words in done for word in words} | {"data/cards/my_pairs.yaml"}
    lines = git(root, "status", "--porcelain", "--untracked-files=all").splitlines()
    return [
        line
        for line in lines
        if not CHANGED_BY_DVC.fullmatch(line[3:]) and (line[:2] != "??" or line[3:] not in named)
    ]


def test_documented_commands_change_no_tracked_file(lab, documented, monkeypatch):
    make_models_once(monkeypatch)
    monkeypatch.setattr(study, "_run", run_all)
    monkeypatch.setattr(study, "DEFAULT_SEEDS", (1,))
    monkeypatch.setattr(study.workspace, "opened", opening(Fake(Path(".scratch/made"))))
    for words in documented:
        run(lab, words)
        assert changed(lab, documented) == [], words
