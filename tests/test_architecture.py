"""Rules of the architecture: imports go one way, and DVC knows every module that a stage runs."""

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
import yaml

from pipeline.io import source_code
from pipeline.io.source_code import BY_RECIPE, PACKAGES, of_stage
from tests import shipped

ROOT = Path(__file__).parents[1]
STAGES = yaml.load((ROOT / "dvc.yaml").read_text(), yaml.CSafeLoader)["stages"]
# a package imports only packages that follow it in this list
LAYERS = """
    stages commands
    cli results study demo publishing probe captioning confidence sensitivity reporting statistics training
    free_english negatives scoring authors_checkpoints decoding weights features judging tabletop
    datasets compute text config io
    pipeline models
""".split()  # noqa: SIM905
LEVELS = {"models": 0, "pipeline": 1, "stages": 2, "commands": 2}
PROVENANCE = {"extract", "extract_pretraining", "pretrain", "train"}  # stages that record times and hosts
imports = cache(source_code.imports)  # a call lists all modules
FILES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path):
    own = path.relative_to(ROOT).parts[0]
    for file in imports(path):
        package = file.relative_to(ROOT).parts[0]
        assert package == own or LEVELS[package] < LEVELS[own], f"{path} imports {file}"
    assert layer(path) in ("stages", "commands", "cli") or not {"argparse", "dvc"} & {
        alias.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import)
        for alias in node.names
    }


def layer(path: Path) -> str:
    """Return the package of a file; of a file directly in pipeline/, `pipeline`."""
    package, *rest = path.relative_to(ROOT).parts
    return rest[0] if package == "pipeline" and len(rest) > 1 else package


def test_a_package_imports_only_lower_packages():
    found = [(path, file) for path in FILES for file in imports(path)]
    assert [each for each in found if LAYERS.index(layer(each[1])) < LAYERS.index(layer(each[0]))] == []


def test_one_thing_has_one_name():
    """A name of a public class means one thing in the whole project."""
    nodes = [(path, node) for path in FILES for node in ast.walk(ast.parse(path.read_text()))]
    classes = [(node.name, path) for path, node in nodes if isinstance(node, ast.ClassDef)]
    counts = Counter(name for name, _ in classes if not name.startswith("_"))
    assert not [(name, str(path)) for name, path in classes if counts[name] > 1]


def test_every_package_is_described():
    for name in LAYERS[2:-2]:
        doc = ast.get_docstring(ast.parse((ROOT / "pipeline" / name / "__init__.py").read_text()))
        assert doc, name
        assert f"[pipeline/{name}/](../pipeline/{name})" in (ROOT / "docs/architecture.md").read_text(), name
    assert {layer(path) for path in FILES} == set(LAYERS)


def script(name: str) -> str:
    """Return the script of a stage. A stage of a pre-training dataset has the script of other datasets."""
    return name.removesuffix("_pretraining")


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_depends_on_the_code_that_it_runs(name):
    if STAGES[name].get("always_changed"):
        return
    code = [dep for dep in STAGES[name]["deps"] if dep.startswith((*PACKAGES, "data/code"))]
    assert code == [f"data/code/{script(name)}.json"]


def test_only_the_stage_without_dependencies_always_runs():
    assert [name for name in STAGES if STAGES[name].get("always_changed")] == ["settings"]
    assert [name for name in STAGES if "deps" not in STAGES[name]] == ["settings"]


def test_stages_that_get_their_model_from_a_recipe_depend_on_the_recipe():
    deps = {name: stage.get("deps", []) for name, stage in STAGES.items()}
    assert {name for name in deps if any(dep.startswith("data/recipes/") for dep in deps[name])} == BY_RECIPE


def test_the_default_pipeline_has_no_idle_stage():
    params = yaml.load(shipped.text("params.yaml"), yaml.CSafeLoader)
    assert params["stages"] == {"extract": ["grid"], "pretrain": []}
    assert STAGES["pretrain"]["matrix"]["model"] == "${stages.pretrain}"
    assert STAGES["extract"]["matrix"]["input"] == "${stages.extract}"
    assert list(STAGES)[-2:] == ["settings", "recipe"]


def test_init_files_do_nothing():
    """DVC does not know the code of an __init__.py as a dependency of the stages that import its modules."""
    for path in (*(ROOT / "pipeline").rglob("__init__.py"), *(ROOT / "models").glob("*/__init__.py")):
        body = ast.parse(path.read_text()).body
        code = [ast.unparse(node) for node in body if not isinstance(node, ast.ImportFrom)][1:]
        assert all(line.startswith("__all__ = ") for line in code), path


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_is_described_and_runs_its_own_script(name):
    assert STAGES[name]["desc"]
    assert STAGES[name]["cmd"].startswith(f"python -m stages.{script(name)} ")
    assert "persist" not in str(STAGES[name])


@pytest.mark.parametrize("name", STAGES)
def test_wall_times_and_versions_are_neither_output_nor_dependency(name):
    """Wall times differ between executions, so they would change dvc.lock at every `dvc repro`."""
    files = [*STAGES[name].get("deps", []), *STAGES[name].get("outs", [])]
    assert not [file for file in files if str(file).startswith("results/provenance")]
    assert ("--provenance results/provenance/" in STAGES[name]["cmd"]) == (name in PROVENANCE)


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if path.parent.name in ("training", "decoding", "features", "config", "weights")],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_general_packages_import_no_paper(path):
    shared = ("common", "initialisation", "kernels", "backbones")
    papers = [folder for folder in (ROOT / "models").iterdir() if folder.name not in shared]
    assert not [file for file in imports(path) if file.parent in papers]


@pytest.mark.parametrize("stage", ["render", "prepare", "vocab", "score", "constant"])
def test_an_edit_of_a_model_does_not_run_stages_without_a_model(stage):
    assert not [path for path in of_stage(stage) if path.startswith("models/")]
