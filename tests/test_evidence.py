"""No sequence of documented commands changes what git tracks, except dvc.lock, params.yaml and metrics.

The commands are those that test_commands.py finds in the two pages. DVC and the training of a study's cells
are replaced by stand-ins that leave scores, as finished cells do.
"""

import re
import shutil
import subprocess
from contextlib import chdir
from functools import partial
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from commands import experiments, record, results, study
from pipeline.config import recipe_file
from pipeline.io.inputs import read_yaml
from pipeline.io.outputs import yaml_of
from tests import project_params
from tests.makefile import making
from tests.running import ROOT, stage
from tests.study_lab import Fake, make_models_once, make_prepared, opening, run_all
from tests.test_commands import WHOLE, calls, commands, made_calls

TRACKED = (
    "datasets.yaml",
    "dvc.yaml",
    "dvc.lock",
    "params.yaml",
    ".gitignore",
    "studies",
    "docs",
    "data/cards",
)
TRACKED += (
    "data/published",
    "results/experiments",
)
RECORDS = "results/records/tabletop"
CODE = ("models", "pipeline", "stages", "commands", "demo")
CHANGED_BY_DVC = re.compile(r"dvc\.lock|params\.yaml|results/cells/.*/(metrics|summary)\.json")
# stages that read pictures, weights or a program that is not here, and write where their arguments say
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
EDITS = ({}, SMALL, {"decode__beam": 3}, {"models": ["rr"], "seeds": [1, 2]})


@pytest.fixture(scope="module")
def documented(tmp_path_factory):
    """The stages that the two pages name, each command once; those of DVC are one, a promotion is none.

    Of a make target what it calls.
    """
    made = making(tmp_path_factory.mktemp("made"))
    lines = chain.from_iterable(commands(page.read_text(encoding="utf-8"), whole=True) for page in WHOLE)
    found: list[tuple[str, ...]] = []
    for words in chain.from_iterable(map(calls, lines)):
        each = made_calls(made(*words[1:])) if words[0] == "make" else [words]
        found += [_short(one) for one in each]
    stages = [one for one in dict.fromkeys(found) if _stage(one) not in ("", *ELSEWHERE)]
    return [DVC, *(one for one in stages if "--promote" not in one), DVC]


def _short(words: list[str]) -> tuple[str, ...]:
    """A command without what a page leaves out, and with the first of a study's seeds."""
    seeds = words.index("--seeds") + 1 if "--seeds" in words else len(words)
    kept = words[: seeds + 1] + [word for word in words[seeds + 1 :] if not word.isdigit()]
    return tuple(word for word in kept if word != "…")


def _stage(words: tuple[str, ...]) -> str:
    package, _, name = words[2].partition(".") if words[:2] == ("python", "-m") else ("", "", "")
    return name if package in ("stages", "commands") else ""


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """What git tracks of this project, with few records, in a repository of its own."""
    root = tmp_path_factory.mktemp("evidence")
    for name in TRACKED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        if (ROOT / name).exists():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            copy(ROOT / name, root / name)
    for name in CODE:
        (root / name).symlink_to(ROOT / name)
    for path in (
        *(ROOT / "results/records/tabletop").glob("rr-?.json"),
        ROOT / "results/records/tabletop/pairs.json",
    ):
        (root / "results/records/tabletop").mkdir(parents=True, exist_ok=True)
        shutil.copy(path, root / path.relative_to(ROOT))
    for path in (ROOT / "results/cells").glob("**/metrics.json"):
        (copied := root / path.relative_to(ROOT)).parent.mkdir(parents=True)
        shutil.copy(path, copied)
    for path in (root / "studies").glob("*.yaml"):
        if "rows" in (tree := read_yaml(path, "")):
            path.write_text(yaml_of(tree | {"rows": tree["rows"][:2]}))
    project_params.write(root)
    for figure in (root / "docs").glob("results-*.svg"):  # of all records: no command wrote them here
        figure.unlink()
    with chdir(root):
        results.write(root / "docs")
    git(root, "init", "-qb", "main")
    git(root, "add", "-A")
    git(root, *("-c", "user.name=a", "-c", "user.email=a@example.org"), "commit", "-qm", "all")
    return root


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(("git", *arguments), cwd=root, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def quick(monkeypatch):
    """Models are made once, cells made up; `dvc exp show` has no experiment."""
    make_models_once(monkeypatch)
    monkeypatch.setattr(study, "_run", run_all)
    monkeypatch.setattr(study, "SEEDS", (1,))
    monkeypatch.setattr(experiments, "_shown", lambda: [{"rev": "workspace", "experiments": None}])
    monkeypatch.setattr(study, "study", partial(study.study, opened=opening(Fake(Path(".scratch/made")))))


def restore(root: Path, edit: dict) -> None:
    """The commit again, without what was left; then a user's edit of params.yaml."""
    git(root, "reset", "-q", "--hard")
    git(root, "clean", "-qfdx")
    project_params.write(root, **edit)
    make_prepared(root)
    (root / "data/raw/my_pairs").mkdir(parents=True)
    (root / "data/raw/my_pairs/pairs.csv").write_text("before,after,caption\na.png,b.png,a car is gone\n")


def run(root: Path, words: tuple[str, ...]) -> None:
    if words[0] == "dvc":
        _dvc(root)
    else:
        assert stage(root, (_stage(words), *words[3:])).returncode in (0, 1, 2)


def _dvc(root: Path) -> None:
    """What `dvc repro` leaves of the cells of params.yaml: scores, curves, recipes and a dvc.lock."""
    (root / "dvc.lock").write_text((root / "dvc.lock").read_text() + "# run\n")
    for cell in record.cells(root):
        Fake(root).run(cell)
        recipe_file.save(
            root / f"data/recipes/{cell.dataset}/{cell.model}/{cell.seed}/recipe.yaml", cell.recipe
        )


def changed(root: Path, done: list[tuple[str, ...]]) -> list[str]:
    """Lines of `git status` that the cookbook does not speak of: an untracked file is named by a command."""
    named = {word for words in done for word in words} | {"data/cards/my_pairs.yaml"}
    lines = git(root, "status", "--porcelain", "--untracked-files=all").splitlines()
    return [
        line
        for line in lines
        if not CHANGED_BY_DVC.fullmatch(line[3:]) and (line[:2] != "??" or line[3:] not in named)
    ]


def test_the_documented_commands_are_found(documented):
    found = {_stage(words) or words[0] for words in documented}
    assert {"study", "record", "results", "experiments", "report", "errors", "new_dataset", "score"} <= found


@pytest.mark.usefixtures("quick")
def test_all_commands_in_the_pages_order_leave_what_is_tracked(lab, documented):
    restore(lab, SMALL)
    for words in documented:
        run(lab, words)
        assert changed(lab, documented) == [], words


@pytest.mark.usefixtures("quick")
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_sequence_of_commands_changes_what_is_tracked(lab, documented, data):
    restore(lab, data.draw(st.sampled_from(EDITS)))
    done = data.draw(st.lists(st.sampled_from(documented), min_size=1, max_size=5))
    for words in done:
        run(lab, words)
    assert changed(lab, done) == []
