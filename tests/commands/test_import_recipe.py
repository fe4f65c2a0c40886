"""The cookbook's recipe of an authors' checkpoint, word for word by DVC: no training replaces its weights."""

import json
import re
import shlex
import shutil
from contextlib import chdir
from dataclasses import replace

import numpy as np
import pytest
import yaml
from dvc.cli import main as dvc

from pipeline.io.inputs import read_yaml
from pipeline.io.outputs import yaml_of
from pipeline.text.vocabularies import SPECIAL
from tests import project_params, released, shipped
from tests.released import CASES
from tests.running import ROOT, succeed
from tests.synthetic import SENTENCES, make_clevr_change

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # DVC's own
SECTION = (ROOT / "docs/cookbook.md").read_text(encoding="utf-8")
SECTION = SECTION.partition("## Use the authors' own checkpoints")[2].partition("\n## ")[0]
SETTINGS, COMMANDS = re.findall(r"^```\w*\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)[:2]
COPIED = ("data/published", "data/imported", "data/pretraining", "dvc.yaml", ".dvcignore")
COPIED += ("data/cards/clevr_change.yaml",)
WORDS = sorted({*" ".join([*SENTENCES.values(), "nothing has there is no change ."]).split()})


def merged(tree, changes):
    """A tree of settings with these changes."""
    for key, value in changes.items():
        tree[key] = merged(tree.get(key, {}), value) if isinstance(value, dict) else value
    return tree


@pytest.fixture
def lab(tmp_path):
    """A repository with the recipe's settings, a small CLEVR-Change, and features in .npy files."""
    shipped.copy(tmp_path, *COPIED)
    for name in (".dvc", "models", "pipeline", "stages", "commands"):
        (tmp_path / name).mkdir()
    (tmp_path / ".dvc/config").write_text("[core]\nno_scm = true\nanalytics = false\n")
    raw = make_clevr_change(tmp_path / "data/raw/clevr_change", scenes=10)
    for number, image in enumerate(sorted(raw.rglob("*.png"))):
        name = tmp_path / "npy" / f"{image.relative_to(raw)}.npy"
        name.parent.mkdir(parents=True, exist_ok=True)
        np.save(name, np.random.default_rng(number).random((1024, 14, 14), dtype=np.float32))
    settings = merged(project_params.tree(), yaml.safe_load(SETTINGS))
    settings["dataset"]["clevr_change"]["features"] = {"npy": "npy"}
    (tmp_path / "params.yaml").write_text(yaml_of(settings))
    published = {"clevr_change": yaml.safe_load(shipped.text("datasets.yaml"))["clevr_change"]}
    (tmp_path / "datasets.yaml").write_text(yaml_of(published))  # DVC writes all of it for each stage
    ids = {word: number for number, word in enumerate((*SPECIAL, *WORDS))}
    (tmp_path / "VOCAB.json").write_text(json.dumps(ids))
    sizes = {"D": 512, "e": 300, "L": 20, "n": 2, "m": 2}
    flat = released.tensors(replace(CASES["scorer"], sizes=sizes, words=len(ids)))
    released.write(tmp_path / "FILE", released.tree(flat))
    return tmp_path


@pytest.fixture
def typed(lab, monkeypatch, made_up_meteor):
    """Run a command line in the repository, the stages in this process; its exit code. None may train."""

    def stage(executable, command, cwd, **_):
        succeed(cwd, command.removeprefix("python -m stages."))

    def code(folder):
        (lab / "data/code").mkdir(parents=True, exist_ok=True)  # reading all sources takes seconds
        for each in ROOT.glob("stages/*.py"):
            (lab / f"data/code/{each.stem}.json").write_text("{}")

    def run(command):
        with chdir(lab):
            match shlex.split(command):
                case ["dvc", *arguments]:
                    return dvc(arguments)
                case ["python", "-m", module, *arguments]:
                    return succeed(lab, [module.partition(".")[2], *arguments]).returncode

    monkeypatch.setattr("dvc.stage.run._run", stage)
    monkeypatch.setattr("stages.settings.write_code", code)
    monkeypatch.setattr("pipeline.cli.phase_run.run_phase", lambda *_, **__: pytest.fail("a training began"))
    return run


@pytest.mark.slow
def test_the_recipe_word_for_word(lab, typed):
    assert [typed(command) for command in COMMANDS.splitlines()] == [0, 0]
    kept, taken = "data/imported/clevr_change/scorer/1/train/weights", "data/weights/clevr_change/scorer/1"
    weights = (lab / taken / "weights.safetensors").read_bytes()
    assert weights == (lab / kept / "weights.safetensors").read_bytes()
    assert (lab / "results/report/index.html").is_file()
    # with other settings and without outputs, the weights are used again
    changed = merged(read_yaml(lab / "params.yaml", ""), {"train": {"iterations": 7}})
    (lab / "params.yaml").write_text(yaml_of(changed))
    shutil.rmtree(lab / taken)
    assert typed("dvc repro train@clevr_change-scorer-1") == 0
    assert (lab / taken / "weights.safetensors").read_bytes() == weights
    # removed imported weights do not start a training
    shutil.rmtree(lab / "data/imported/clevr_change")
    assert typed("dvc repro train@clevr_change-scorer-1") == 255
    assert (lab / taken / "weights.safetensors").read_bytes() == weights
