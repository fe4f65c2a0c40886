"""Experiments by the cookbook's commands change neither the working tree nor the next experiment."""

import json
import re
import shlex
import subprocess
from contextlib import chdir
from difflib import ndiff

import pytest
import yaml
from dvc.cli import main as dvc
from dvc.utils.hydra import apply_overrides

from pipeline.config.params import read_tree
from tests import project_params, shipped
from tests.test_commands import commands
from tests.test_docs import ROOT

PARAMS = shipped.text("params.yaml")
PAGE = (ROOT / "docs/cookbook.md").read_text(encoding="utf-8")
RUN = [
    shlex.split(command)[1:] for command in commands(PAGE, whole=True) if command.startswith("dvc exp run")
]
SET = [words[place + 1] for words in RUN for place, word in enumerate(words) if word == "-S"]
PIPELINE = "stages: {x: {cmd: cp params.yaml out, params: [loss, model], outs: [out: {cache: false}]}}"
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # DVC's own
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@localhost")


def written(folder, text: str, setting: str) -> list[str]:
    """Return the lines of params.yaml that DVC removes (-) and adds (+) for an experiment's setting."""
    path = folder / "params.yaml"
    path.write_text(text, encoding="utf-8")
    apply_overrides(path, [setting])
    lines = ndiff(text.splitlines(), path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line[0] in "+-"]


def test_params_yaml_has_the_layout_that_dvc_writes(tmp_path):
    value = json.dumps(yaml.safe_load(PARAMS)["loss"]["lambda_cbr"])
    assert written(tmp_path, PARAMS, f"loss.lambda_cbr={value}") == []
    loose = re.sub(r"^seeds:\n(- \d+\n)+", "seeds: [1]\n", PARAMS, flags=re.MULTILINE)
    assert len(written(tmp_path, loose, f"loss.lambda_cbr={value}")) == 3


@pytest.mark.parametrize("setting", sorted({each for each in SET if not {*":,["} & {*each}}))
def test_an_experiment_writes_its_own_setting_only(tmp_path, setting):
    lines = written(tmp_path, PARAMS, setting)
    assert sum(line[0] == "-" for line in lines) <= 1
    assert len(lines) <= 3
    # no line, if the file has this value already
    assert not lines or setting.partition("=")[0].split(".")[-1] in "".join(lines)


@pytest.mark.parametrize("head", ["models: [scorer, dirl]", "models:\n- scorer\n- dirl"])
def test_two_experiments_keep_the_comments(tmp_path, head):
    text = PARAMS.replace("models:\n- subtraction\n- scorer_cbr", head)
    for setting in ("loss.lambda_cbr=0.004", "train.references=4"):
        assert not [line for line in written(tmp_path, text, setting) if line[0] == "-" and "#" in line][1:]
        text = (tmp_path / "params.yaml").read_text(encoding="utf-8")
    assert text.count("#") == PARAMS.count("#")


def git(folder, *words: str) -> str:
    done = subprocess.run([*GIT, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture
def repository(tmp_path):
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc/config").write_text((ROOT / ".dvc/config").read_text())
    (tmp_path / ".dvc/.gitignore").write_text("/tmp\n/cache\n")
    project_params.copy(tmp_path)
    (tmp_path / "dvc.yaml").write_text(PIPELINE)
    git(tmp_path, "init", "--quiet")
    with chdir(tmp_path):
        assert dvc(["repro", "--quiet"]) == 0
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "x")
    return tmp_path


def test_two_experiments_in_a_row_are_independent_and_keep_the_tree_clean(repository):
    section = PAGE.partition("## Run an ablation")[2].partition("\n## ")[0]
    first, second = commands(section, whole=True)[:2]
    with chdir(repository):
        for command in (first, second):
            assert dvc([*shlex.split(command)[1:], "--quiet"]) == 0
        for command in ("exp diff HEAD", "exp list", "exp show --only-changed"):
            assert dvc(command.split()) == 0
    assert git(repository, "status", "--porcelain") == ""
    refs = git(repository, "for-each-ref", "--format=%(refname)", "refs/exps").split()
    found = []
    for ref in refs:
        (repository / "params_of_it.yaml").write_text(git(repository, "show", f"{ref}:out"))
        found.append(read_tree(repository / "params_of_it.yaml")["model"]["scorer"]["switches"])
    assert sorted(found, key=str) == [{"fusion": "sum"}, {"mtm": "mean_pool"}]
