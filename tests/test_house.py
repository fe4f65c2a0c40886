"""The house's rules: imports go one way, and DVC knows every module that a stage runs."""

import ast
from pathlib import Path

import pytest
import yaml

from pipeline.io.source_code import BY_RECIPE, PACKAGES, imports

ROOT = Path(__file__).parents[1]
STAGES = yaml.load((ROOT / "dvc.yaml").read_text(), yaml.CSafeLoader)["stages"]
# from the top floor down: a room uses only what stands below it
ROOMS = [
    *("stages", "commands"),
    *(
        "cli",
        "results",
        "study",
        "demo",
        "publishing",
        "probe",
        "captioning",
        "confidence",
        "reporting",
        "statistics",
        "training",
    ),
    *(
        "free_english",
        "negatives",
        "scoring",
        "authors_checkpoints",
        "decoding",
        "weights",
        "features",
        "tabletop",
    ),
    *("datasets", "compute", "text", "config", "io"),
    *("pipeline", "models"),
]
LEVELS = {"models": 0, "pipeline": 1, "stages": 2, "commands": 2}
PROVENANCE = {"extract", "extract_pretraining", "pretrain", "train"}  # they say when and where
FILES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path):
    own = path.relative_to(ROOT).parts[0]
    for file in imports(path):
        package = file.relative_to(ROOT).parts[0]
        assert package == own or LEVELS[package] < LEVELS[own], f"{path} imports {file}"
    assert room(path) in ("stages", "commands", "cli") or not {"argparse", "dvc"} & {
        alias.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import)
        for alias in node.names
    }


def room(path: Path) -> str:
    """The room that a file stands in; files of pipeline/ itself are `pipeline`."""
    package, *rest = path.relative_to(ROOT).parts
    return rest[0] if package == "pipeline" and len(rest) > 1 else package


def test_a_room_uses_only_what_stands_below_it():
    ties = [(path, file) for path in FILES for file in imports(path)]
    assert [tie for tie in ties if ROOMS.index(room(tie[1])) < ROOMS.index(room(tie[0]))] == []


def test_every_room_says_what_it_is_for():
    for name in ROOMS[2:-2]:
        doc = ast.get_docstring(ast.parse((ROOT / "pipeline" / name / "__init__.py").read_text()))
        assert doc, name
        assert f"[pipeline/{name}/](../pipeline/{name})" in (ROOT / "docs/architecture.md").read_text(), name
    assert {room(path) for path in FILES} == set(ROOMS)


def script(name: str) -> str:
    """The script of a stage: those of the datasets that pre-training alone sees are those of any dataset."""
    return name.removesuffix("_pretraining")


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_depends_on_the_code_that_it_runs(name):
    code = [dep for dep in STAGES[name]["deps"] if dep.startswith((*PACKAGES, "data/code"))]
    assert code == (sorted(PACKAGES[:3]) if name == "settings" else [f"data/code/{script(name)}.json"])


def test_the_stages_whose_models_stand_in_a_recipe_depend_on_one():
    deps = {name: stage["deps"] for name, stage in STAGES.items()}
    assert {name for name in deps if any(dep.startswith("data/recipes/") for dep in deps[name])} == BY_RECIPE


def test_the_default_pipeline_has_no_stage_that_does_nothing():
    params = yaml.load((ROOT / "params.yaml").read_text(), yaml.CSafeLoader)
    assert params["stages"] == {"extract": ["grid"], "pretrain": []}
    assert STAGES["pretrain"]["matrix"]["model"] == "${stages.pretrain}"
    assert STAGES["extract"]["matrix"]["input"] == "${stages.extract}"
    assert list(STAGES)[-2:] == ["settings", "recipe"]


def test_a_room_does_nothing_when_one_of_its_modules_is_imported():
    """What a package imports and does on the way to a module is no dependency of the module's stages."""
    for path in (ROOT / "pipeline").rglob("__init__.py"):
        doing = ast.parse(path.read_text()).body
        idle = [ast.unparse(node) for node in doing if not isinstance(node, ast.ImportFrom)][1:]
        assert all(line.startswith("__all__ = ") for line in idle), path


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_is_described_and_runs_its_own_script(name):
    assert STAGES[name]["desc"]
    assert STAGES[name]["cmd"].startswith(f"python -m stages.{script(name)} ")
    assert "persist" not in str(STAGES[name])


@pytest.mark.parametrize("name", STAGES)
def test_wall_times_and_versions_are_neither_output_nor_dependency(name):
    """They differ from run to run: dvc.lock would change with every `dvc repro`."""
    files = [*STAGES[name]["deps"], *STAGES[name].get("outs", [])]
    assert not [file for file in files if str(file).startswith("results/provenance")]
    assert ("--provenance results/provenance/" in STAGES[name]["cmd"]) == (name in PROVENANCE)


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if path.parent.name in ("training", "decoding", "features", "config", "weights")],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_rooms_that_train_know_no_family_of_models(path):
    shared = ("common", "initialisation", "kernels", "backbones")
    families = [folder for folder in (ROOT / "models").iterdir() if folder.name not in shared]
    assert not [file for file in imports(path) if file.parent in families]


def test_files_stay_short():
    lengths = {path: path.read_text().count("\n") for path in (*FILES, *(ROOT / "tests").rglob("*.py"))}
    assert {path: lines for path, lines in lengths.items() if lines > 300} == {}


def test_functions_stay_short():
    lengths = sorted(
        node.end_lineno - node.lineno + 1
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
    )
    assert lengths[len(lengths) // 2] <= 15
