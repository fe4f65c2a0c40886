"""The source files of a stage are found by their imports; an edit changes only the hashes of its stages."""

import json
import shutil
from contextlib import chdir
from pathlib import Path

import pytest

from models import entry_of
from pipeline.io import source_code
from pipeline.io.errors import InputError
from stages import settings

ROOT = Path(__file__).parents[3]
STAGE = """
import json
import pipeline.first
from pipeline import second, NAME
from models.third import Third, f
def late():
    from pipeline.below import fourth
"""


@pytest.fixture
def small(tmp_path):
    """A stage with all kinds of imports."""
    for name, text in {
        "stages/one.py": STAGE,
        "pipeline/__init__.py": "NAME = 1",
        "pipeline/first.py": "from models import third",
        "pipeline/second.py": "import stages.one",  # a circle
        "pipeline/third.py": "",  # imported by no module
        "models/third.py": "import numpy.random, torch",
        "pipeline/below/fourth.py": 'FILES = Path(__file__).with_name("page.html"), "program.py"',
        "pipeline/below/program.py": "import bpy",  # started by fourth.py
        "pipeline/below/fifth.py": "",
        "pipeline/below/page.html": "",
        "pipeline/page.css": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_imports_and_data_files_of_a_stage(small):
    found = source_code.of_stage("one", small)
    below = ("below/fourth.py", "below/page.html", "below/program.py")
    files = ("__init__.py", *below, "first.py", "second.py")
    assert list(found) == ["models/third.py", *(f"pipeline/{name}" for name in files), "stages/one.py"]
    before = found["models/third.py"]
    (small / "models/third.py").write_text("# another")
    assert source_code.of_stage("one", small)["models/third.py"] != before


def test_stages_that_depend_on_a_recipe_have_no_files_of_models(small):
    (small / "stages/one.py").rename(small / "stages/train.py")
    assert "models/third.py" not in source_code.of_stage("train", small)


@pytest.mark.parametrize("text", ["def f(:", "a\0", "from . import first", "from .first import a"])
def test_a_source_that_cannot_be_parsed_is_named(small, text):
    (small / "pipeline/second.py").write_text(text)
    with pytest.raises(InputError, match=r"pipeline/second\.py cannot be read as .* \(.*\); correct it"):
        source_code.of_stage("one", small)


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the project's code."""
    root = tmp_path_factory.mktemp("code")
    for name in source_code.PACKAGES:
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    return root


def written(root: Path) -> dict[str, bytes]:
    """Return the file that the stage `settings` writes for each stage."""
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
        ("pipeline/judging/verdicts.py", {"score", "constant", "report", "decode", *TRAINING}, {"extract"}),
        ("pipeline/scoring/meteor.py", {"score", "constant"}, TRAINING),
        ("models/dirl/model.py", {"recipe"}, {"extract", "decode", *TRAINING}),
        ("models/backbones/backbone.py", {"extract"}, {"recipe", *TRAINING}),
        ("stages/train.py", {"train"}, {"pretrain", "decode"}),
        ("pipeline/cli/phase_run.py", TRAINING, {"decode"}),
        ("models/__init__.py", {"recipe", "decode", *TRAINING}, {"extract", "score", "render"}),
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


EDITS = {
    "build": ("entry = entry_of(name)\n    declaration", "entry = MODELS[name]\n    declaration"),
    "switches_of": ("{**SHARED, **settings}", "{**settings, **SHARED}"),
    "entry": ('"scorer": scorer.SCORER', '"scorer": scorer.RR'),
    "another entry": ('"scorer": scorer.SCORER,', '"scorer": scorer.SCORER,\n    "mine": duda.DUDA,'),
    "a new model": ('"card": card.CARD,', '"card": card.CARD,\n    "mine": mine.MINE,'),
}


@pytest.mark.parametrize(
    ("edit", "stage", "recipe"),
    [
        ("build", True, False),
        ("switches_of", True, False),
        ("entry", False, True),
        ("another entry", False, False),
        ("a new model", False, False),
    ],
)
def test_an_edit_of_the_table_of_models_reaches_the_runs_that_use_it(copy, edit, stage, recipe):
    """`build` and `switches_of` make all models; an entry only its own, so a new model retrains nothing."""
    file = copy / source_code.TABLE
    text, build = file.read_text(), entry_of("scorer").build
    before = written(copy), source_code.of_model("scorer", build, copy)
    old, new = EDITS[edit]
    assert text.count(old) == 1
    added = "from models.mine import model as mine\n" if edit == "a new model" else ""
    file.write_text(
        text.replace(old, new).replace(
            "from models.scorer import cbr", added + "from models.scorer import cbr"
        )
    )
    try:
        after = written(copy), source_code.of_model("scorer", build, copy)
    finally:
        file.write_text(text)
    for name in ("train", "pretrain", "decode"):
        assert (before[0][name] != after[0][name]) is stage
    assert before[0]["recipe"] != after[0]["recipe"]  # so DVC writes all recipes again
    assert (before[1] != after[1]) is recipe


@pytest.mark.parametrize("text", ["", "MODELS = {}", "MODELS: dict = dict()", "MODELS: dict"])
def test_a_table_of_models_that_is_no_dictionary_is_named(text):
    with pytest.raises(InputError, match=source_code.TABLE):
        source_code.table_of_models(text)


def test_the_commit_is_none_outside_git(tmp_path):
    assert source_code.revision(tmp_path) is None


def test_code_that_resolves_settings_is_no_code_of_a_training():
    """So an edit of it retrains nothing: the stage `recipe` has written the resolved settings."""
    for stage in ("pretrain", "train", "decode"):
        assert not {"pipeline/config/resolving.py", "stages/recipe.py"} & source_code.of_stage(stage).keys()


def test_a_new_metric_trains_nothing_again():
    """The table of metrics, and what makes tables of them, are code of the scores only."""
    of_scores = {f"pipeline/scoring/{name}.py" for name in ("mean_metrics", "metric_names", "corpus")}
    assert of_scores <= source_code.of_stage("score").keys()
    for stage in ("pretrain", "train", "decode", "recipe", "extract"):
        assert not of_scores & source_code.of_stage(stage).keys()
