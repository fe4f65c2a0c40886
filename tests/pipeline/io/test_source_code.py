"""Which files a stage runs: found by their imports, and an edit reaches the stages that run it, no others."""

import json
import shutil
import subprocess
from contextlib import chdir
from pathlib import Path

import pytest

from pipeline.io import provenance, source_code
from pipeline.io.errors import InputError
from stages import settings
from tests.running import refuse

ROOT = Path(__file__).parents[3]
STAGE = """
import json
import pipeline.first
from pipeline import second, NAME
from models.third import Third, f
def late():
    from pipeline.room import fourth
"""


@pytest.fixture
def small(tmp_path):
    """A stage that imports in every way that there is."""
    for name, text in {
        "stages/one.py": STAGE,
        "pipeline/__init__.py": "NAME = 1",
        "pipeline/first.py": "from models import third",
        "pipeline/second.py": "import stages.one",  # a circle
        "pipeline/third.py": "",  # nobody's
        "models/third.py": "import numpy.random, torch",
        "pipeline/room/fourth.py": "PAGE = Path(__file__).with_name('page.html')",
        "pipeline/room/fifth.py": "",
        "pipeline/room/page.html": "",
        "pipeline/page.css": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_what_a_stage_imports_and_reads_beside_it(small):
    found = source_code.of_stage("one", small)
    rooms = ("__init__.py", "first.py", "room/fourth.py", "room/page.html", "second.py")
    assert list(found) == ["models/third.py", *(f"pipeline/{name}" for name in rooms), "stages/one.py"]
    before = found["models/third.py"]
    (small / "models/third.py").write_text("# another")
    assert source_code.of_stage("one", small)["models/third.py"] != before


def test_models_are_left_to_the_recipe_where_there_is_one(small):
    (small / "stages/one.py").rename(small / "stages/train.py")
    assert "models/third.py" not in source_code.of_stage("train", small)


@pytest.mark.parametrize("text", ["def f(:", "a\0", "from . import first", "from .first import a"])
def test_what_cannot_be_followed_is_named(small, text):
    (small / "pipeline/second.py").write_text(text)
    with pytest.raises(InputError, match=r"pipeline/second\.py cannot be read as .* \(.*\); correct it"):
        source_code.of_stage("one", small)


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The project's own code."""
    root = tmp_path_factory.mktemp("code")
    for name in source_code.PACKAGES:
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    return root


def written(root: Path) -> dict[str, bytes]:
    """What the stage writes: a file a stage."""
    with chdir(root):
        settings.write_code(root / "data/code")
    return {path.stem: path.read_bytes() for path in (root / "data/code").iterdir()}


TRAINING = {"train", "pretrain"}


@pytest.mark.parametrize(
    ("edited", "reached", "left"),
    [
        ("pipeline/demo/page.py", set(), {"report", *TRAINING}),
        ("pipeline/demo/page.css", set(), {"report"}),
        ("pipeline/reporting/report.css", {"report"}, {"score"}),
        ("pipeline/reporting/parts.html.j2", {"report"}, {"score"}),
        ("pipeline/scoring/truth.py", {"score", "constant", "report", *TRAINING}, {"decode", "extract"}),
        ("pipeline/scoring/meteor.py", {"score", "constant"}, TRAINING),
        ("models/dirl/model.py", {"recipe"}, {"extract", "decode", *TRAINING}),
        ("models/backbones/backbone.py", {"extract"}, {"recipe", *TRAINING}),
        ("stages/train.py", TRAINING, {"decode"}),
    ],
)
def test_an_edit_reaches_the_stages_that_run_it(copy, edited, reached, left):
    before, text = written(copy), (copy / edited).read_text()
    assert before == written(copy)
    (copy / edited).write_text(text + "\n")
    after = written(copy)
    (copy / edited).write_text(text)
    other = {name for name in before if before[name] != after[name]}
    assert reached <= other
    assert not left & other
    assert all(list(json.loads(text)) == sorted(json.loads(text)) for text in after.values())


def test_an_edit_of_the_demo_leaves_a_killed_trainings_work(copy):
    before, texts = provenance.code("train", copy), {}
    for name in ("pipeline/demo/page.py", "pipeline/scoring/truth.py"):
        texts[name] = (copy / name).read_text()
    (copy / "pipeline/demo/page.py").write_text("")
    assert provenance.code("train", copy) == before
    (copy / "pipeline/scoring/truth.py").write_text(texts["pipeline/scoring/truth.py"] + "\n")
    assert provenance.code("train", copy) != before
    for name, text in texts.items():
        (copy / name).write_text(text)


def test_a_stage_that_is_no_python_is_one_line(small):
    (small / "stages/two.py").write_text("def")
    refuse(
        small,
        "settings --code data/code --settings data/settings",
        "stages/two.py cannot be read as Python of ours (invalid syntax",
    )
    assert not (small / "data").exists()


def test_the_commit_is_none_outside_git(tmp_path, capsys):
    assert source_code.revision(tmp_path) is None
    assert capsys.readouterr().err == ""


def test_a_checkout_that_git_refuses_is_said(tmp_path, monkeypatch, capsys):
    """As root in a folder of another owner."""
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "none"))
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    assert source_code.revision(tmp_path) is None
    said = capsys.readouterr().err
    assert f"safe.directory '{tmp_path}'" in said
    assert said.count("\n") == 1


def test_what_resolves_settings_is_no_code_of_a_training():
    """The stage recipe has written what it resolved: an edit of how trains nothing again."""
    for stage in ("pretrain", "train", "decode"):
        assert not {"pipeline/config/resolving.py", "stages/recipe.py"} & source_code.of_stage(stage).keys()
