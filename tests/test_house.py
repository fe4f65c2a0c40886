"""The house's rules: imports go one way, and DVC knows every module that a stage runs."""

import ast
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PACKAGES = ("models", "pipeline", "stages")  # a package imports only itself and those before it
STAGES = yaml.load((ROOT / "dvc.yaml").read_text(), yaml.CSafeLoader)["stages"]
# from the top floor down: a room uses only what stands below it
ROOMS = [
    *(
        "stages",
        "studying",
        "demo",
        "captioning",
        "reporting",
        "backbone",
        "statistics",
        "training",
        "scoring",
    ),
    *("authors_checkpoints", "decoding", "recipes", "features", "negatives", "tabletop"),
    *("datasets", "compute"),
    *("pipeline", "models"),
]
PROVENANCE = {
    "adapt",
    "extract",
    "extract_pretraining",
    "pretrain",
    "train",
}  # they say when and where
FILES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def module_file(name: str) -> Path | None:
    """The file of a module of ours; a package is its __init__.py."""
    base = ROOT.joinpath(*name.split("."))
    files = (base.with_suffix(".py"), base / "__init__.py")
    return next((file for file in files if file.exists()), None)


def imports(path: Path) -> set[Path]:
    """Files of ours that a file imports by name: `from a import b` is a/b.py where there is one, else a."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write imports in full"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                names.append(whole if module_file(whole) else node.module)
        found |= {module_file(name) for name in names if name.split(".")[0] in PACKAGES}
    return found - {None}


def closure(path: Path) -> set[Path]:
    """A file and all that it imports, directly or not."""
    found, waiting = set(), [path]
    while waiting:
        if (file := waiting.pop()) not in found:
            found.add(file)
            waiting += imports(file)
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path):
    own = PACKAGES.index(path.relative_to(ROOT).parts[0])
    for file in imports(path):
        package = file.relative_to(ROOT).parts[0]
        assert PACKAGES.index(package) <= own, f"{path} imports {file}"
    assert own == 2 or not {"argparse", "dvc"} & {
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
    for name in ROOMS[1:-2]:
        doc = ast.get_docstring(ast.parse((ROOT / "pipeline" / name / "__init__.py").read_text()))
        assert doc, name
        assert f"[pipeline/{name}/](../pipeline/{name})" in (ROOT / "docs/house.md").read_text(), name
    assert {room(path) for path in FILES} == set(ROOMS)


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_depends_on_every_module_that_it_imports(name):
    deps = [dep for dep in STAGES[name]["deps"] if not dep.startswith(("data/", "results/"))]
    needed = closure(ROOT / "stages" / f"{name}.py") | {ROOT / "stages" / "__init__.py"}
    if any(dep.startswith("data/recipes/") for dep in STAGES[name]["deps"]):
        # the model's source files stand in its recipe, by hash
        needed = {file for file in needed if file.parent != ROOT / "models"}
    missing = {f for f in needed if not any(f == ROOT / d or (ROOT / d) in f.parents for d in deps)}
    assert sorted(str(file.relative_to(ROOT)) for file in missing) == []
    idle = [d for d in deps if not any(f == ROOT / d or (ROOT / d) in f.parents for f in needed)]
    assert idle == [], "listed, but not imported"


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_is_described_and_runs_its_own_script(name):
    assert STAGES[name]["desc"]
    assert STAGES[name]["cmd"].startswith(f"python -m stages.{name} ")
    assert "persist" not in str(STAGES[name])


@pytest.mark.parametrize("name", STAGES)
def test_wall_times_and_versions_are_neither_output_nor_dependency(name):
    """They differ from run to run: dvc.lock would change with every `dvc repro`."""
    files = [*STAGES[name]["deps"], *STAGES[name].get("outs", [])]
    assert not [file for file in files if str(file).startswith("results/provenance")]
    assert ("--provenance results/provenance/" in STAGES[name]["cmd"]) == (name in PROVENANCE)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_stay_short(path):
    assert len(path.read_text().splitlines()) <= 300


def test_functions_stay_short():
    lengths = sorted(
        node.end_lineno - node.lineno + 1
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
    )
    assert lengths[len(lengths) // 2] <= 15
