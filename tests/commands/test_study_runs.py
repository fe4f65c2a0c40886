"""The runs of a study with DVC: trained once, committed, with current code and data."""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from pipeline.io.errors import InputError
from pipeline.io.scratch_folders import output_lock
from pipeline.study import study_runs, workspace
from pipeline.study.jobs import Local, Queue
from pipeline.study.run_task import RunTask
from tests.running import ROOT

# Stages that write what they were given, and count how often they ran.
PIPELINE = """
stages:
  prepare: {matrix: {dataset: '${datasets}'}, cmd: mkdir data/pairs && touch data/pairs/p, outs: [data/pairs]}
  settings:
    cmd: >-
      mkdir -p data && cp stages/x data/code &&
      python -c "import yaml; print(yaml.safe_load(open('params.yaml')).get('dataset'))" > data/settings
    always_changed: true
    outs: [data/code, data/settings]
  extract:
    matrix: {dataset: '${datasets}', input: [grid]}
    cmd: mkdir data/features && echo features > data/features/f
    outs: [data/features]
  vocab:
    matrix: {dataset: '${datasets}'}
    cmd: mkdir data/vocab && echo vocab > data/vocab/v
    outs: [data/vocab]
  recipe:
    matrix: {dataset: '${datasets}', model: '${models}', seed: '${seeds}'}
    cmd: >-
      mkdir -p data/recipes/d/m/${item.seed} && cd data/recipes/d/m/${item.seed} &&
      cp ../../../../../params.yaml recipe.yaml && touch pretrain.yaml && echo ${item.model} > inputs.json
    deps: [data/settings, data/features]
    params: [loss]
    outs:
    - data/recipes/d/m/${item.seed}/recipe.yaml
    - data/recipes/d/m/${item.seed}/pretrain.yaml
    - data/recipes/d/m/${item.seed}/inputs.json
  train:
    matrix: {dataset: '${datasets}', model: '${models}', seed: '${seeds}'}
    cmd: echo ${item.seed} >> RUNS && cat data/recipes/d/m/${item.seed}/recipe.yaml data/features/f > weights
    deps: ['data/recipes/d/m/${item.seed}', data/features, data/code]
    outs: [weights]
  decode:
    matrix: {dataset: '${datasets}', model: '${models}', seed: '${seeds}'}
    cmd: >-
      if grep -q 13 params.yaml; then echo 'error: the last line'; exit 1; fi; cp weights captions
    deps: [weights]
    outs: [captions]
  score:
    matrix: {dataset: '${datasets}', model: '${models}', seed: '${seeds}'}
    cmd: mkdir -p results && cp captions results/metrics.json
    deps: [captions]
    outs: [results/metrics.json: {cache: false}]
"""


PARAMS = {
    "datasets": ["d"],
    "models": ["m"],
    "seeds": [1],
    "loss": {"x": 1},
    "dataset": {"d": {"y": 1}},
}


# of a model that has no phase before captioning
PLAIN = SimpleNamespace(
    pretraining=None, asks_negatives=False, input="grid", entry=SimpleNamespace(retrieves=False)
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory) -> Path:
    """A DVC repository with the prepared dataset d; the file `runs` next to it counts trainings."""
    root = tmp_path_factory.mktemp("study") / "lab"
    for folder in ("data/cards", ".dvc"):
        (root / folder).mkdir(parents=True)
    for folder in ("models", "pipeline", "stages", "commands"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    (root / "data/cards/d.yaml").write_text("{}")
    (root / "stages/x").touch()
    for name in workspace.README_FILES:
        (root / name).parent.mkdir(parents=True)
        (root / name).touch()
    (root / ".dvcignore").touch()
    (root / "datasets.yaml").write_text("{}")
    (root / ".dvc/config").write_text("[core]\nno_scm = true\nanalytics = false\n")
    (root / "params.yaml").write_text(yaml.safe_dump(PARAMS))
    (root / "dvc.yaml").write_text(PIPELINE.replace("RUNS", str(root.parent / "runs")))
    subprocess.run(
        [sys.executable, "-m", "dvc", "repro", "-q", *study_runs.preparing_stages("d", ["grid"])],
        cwd=root,
        check=True,
    )
    return root


def run_of(key: str, **changes) -> study_runs.Run:
    """Return a run of the model m on the dataset d, with these changes of params.yaml."""
    (seed,) = changes.get("seeds", [1])
    return study_runs.Run(f"run {key}", "d", "m", seed, PARAMS | changes, PLAIN, key)


def ran(lab: Path, *runs: study_runs.Run, dropped: str = "") -> dict[str, str]:
    """Run them, one after another; what the finished ones made, and what the others said last, by key.

    DVC's cache takes nothing of the one whose key is `dropped`.
    """
    found = {}

    def taking(key):
        return lambda made: found.update({key: (made / "results/metrics.json").read_text()})

    with workspace.opened(lab, "d", ["grid"]) as base:
        tasks = [RunTask(run, base, run.key != dropped, taking(run.key)) for run in runs]
        failed = Queue(Local(1), tasks).run()
    lines = [line.removeprefix("run ").partition(": ") for line in failed]
    return found | {key: reason for key, _, reason in lines}


def runs(lab: Path) -> list[str]:
    return (lab.parent / "runs").read_text().split()


@pytest.mark.slow
def test_a_run_trains_once_and_dvc_repro_finds_it(lab):
    before = tree(lab)
    one = run_of("one", loss={"x": 2})
    # the same run under another key, as if a study of another name or `dvc repro` had trained it
    each = [one, replace(one, key="again"), run_of("two", seeds=[2], dataset={"d": {"y": 5}})]
    found = ran(lab, *each, run_of("dropped", seeds=[5]), dropped="dropped")
    assert found["one"] == found["again"] == yaml.safe_dump(one.params, sort_keys=False) + "features\n"
    assert "y: 5" in found["two"]  # what a row sets of the dataset's own settings reaches its recipe
    assert runs(lab) == ["1", "2", "5"]
    assert before == tree(lab)
    assert not list((lab / workspace.FOLDER / "runs").iterdir())
    for own, count in ((each[2], 1), (run_of("dropped", seeds=[5]), 2)):
        copy = lab.parent / own.key
        shutil.copytree(lab, copy, ignore=shutil.ignore_patterns(".scratch"), symlinks=True)
        (copy / "params.yaml").write_text(yaml.safe_dump(own.params))
        command = [sys.executable, "-m", "dvc", "repro", "-q", f"score@d-m-{own.seed}"]
        subprocess.run(command, cwd=copy, check=True)
        assert runs(lab).count(str(own.seed)) == count


@pytest.mark.slow
def test_other_code_trains_again_and_a_failed_run_continues(lab):
    for text, count in (("other", 1), ("", 2)):
        (lab / "stages/x").write_text(text)
        found = ran(lab, run_of("bad", loss={"x": 13}, seeds=[6]), run_of(f"good{count}", seeds=[3]))
        assert found["bad"] == "the last line"
        assert found[f"good{count}"].endswith("features\n")
        assert runs(lab).count("3") == count
        assert runs(lab).count("6") == 1  # it failed after its training, which its workspace has


def test_one_study_at_a_time(lab):
    with (
        output_lock(lab / workspace.FOLDER),
        pytest.raises(InputError, match="still works on"),
        workspace.opened(lab, "d", ["grid"]),
    ):
        pass


def test_data_of_other_code_are_refused(lab):
    text = (lab / "dvc.yaml").read_text()
    (lab / "dvc.yaml").write_text(text.replace("echo vocab", "echo words"))
    said = "the data of d are not up to date or not in DVC's cache; name d in `datasets` of params.yaml"
    with pytest.raises(InputError, match=said), workspace.opened(lab, "d", ["grid"]):
        pass
    (lab / "dvc.yaml").write_text(text)


def tree(root: Path) -> dict[str, bytes]:
    """All files outside DVC's and our scratch folders."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and not {".dvc", ".scratch", "__pycache__"} & set(path.relative_to(root).parts)
    }
