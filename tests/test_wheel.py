"""The wheel contains the repository in one package, which works without the repository."""

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from setuptools import Distribution
from setuptools.errors import SetupError

from change_captioning_lab import __main__
from pipeline.io.errors import InputError
from pipeline.io.source_code import PACKAGES
from tests.running import ROOT

LIBRARY = "change_captioning_lab"
BUILT_FROM = (*PACKAGES, LIBRARY, "setup.py", "pyproject.toml", "README.md", "LICENSE")
SAMPLE = [str(ROOT / f"docs/sample/{name}.png") for name in ("before", "after")]
WEIGHTS = str(ROOT / "demo/clip4idc")
USE = f"""
import sys
import {LIBRARY}
assert not [name for name in sys.modules if name.startswith("{LIBRARY}.")]
from {LIBRARY}.judge import judge, judge_free, Pair, SceneFacts, Placed
assert not {{"numpy", "torch"}} & {{*sys.modules}}
from {LIBRARY}.metrics import score
ball = Placed(0, "small", "red", "metal", "sphere", 0.0, 0.0)
facts = SceneFacts((ball,), (), (1.0, 0.0, 1.0), (1.0, 0.0, 1.0), 0)
pair = Pair("a", "a", "test", "a", "b", ("the ball is gone",), "drop", scene=facts)
print([judge(text, pair).true for text in ("the ball is gone", "the cube is gone")], callable(score))
assert [judge_free(text, pair).true for text in ("A red ball vanished.", "A cube did.")] == [True, False]
from {LIBRARY}.captioner import PairCaptioner
print(PairCaptioner.load(sys.argv[1])(*sys.argv[2:]))
from {LIBRARY}.__main__ import main
sys.argv = ["change-captioning", "caption", *sys.argv[2:], "--weights", sys.argv[1]]
try:
    main()
except SystemExit as left:
    assert left.code == 0
tops = {{name.partition(".")[0] for name in sys.modules}}
print(sorted(tops & {{"models", "pipeline", "stages", "commands", "dvc", "dvclive", "gradio"}}))
"""


def load_setup():
    """Import setup.py as a module, without a build."""
    spec = importlib.util.spec_from_file_location("setup_of_the_wheel", ROOT / "setup.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


building = load_setup()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder like site-packages with the unpacked wheel, built from a copy of this repository."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in BUILT_FROM:
        skip = shutil.ignore_patterns("__pycache__")
        source, copy = ROOT / name, folder / "source" / name
        shutil.copytree(source, copy, ignore=skip) if source.is_dir() else shutil.copyfile(source, copy)
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--no-build-isolation",
    ]
    subprocess.run([*command, "--wheel-dir", str(folder), str(folder / "source")], check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder / "site")
    return folder / "site"


def python(site, folder, *words):
    """Run Python with the wheel on its path, and without the repository."""
    environment = os.environ | {"PYTHONPATH": str(site), "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else Python would compile torch's modules for 10 s
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_it_captions_and_judges_without_the_repository(site, tmp_path):
    done = python(site, tmp_path, "-c", USE, WEIGHTS, *SAMPLE)
    assert done.returncode == 0, done.stderr
    caption = "the large brown matte ball turned blue"
    found = [line.partition("  (probability")[0] for line in done.stdout.splitlines()]
    assert found == ["[True, False] True", caption, caption, "[]"]
    tops = {path.name for path in site.iterdir()}
    assert {name for name in tops if not name.endswith(".dist-info")} == {LIBRARY}


def test_its_command_refuses_what_needs_the_repository(site, tmp_path):
    done = python(site, tmp_path, "-m", LIBRARY, "study")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "'study' is no command" in done.stderr
    done = python(site, tmp_path, "-m", LIBRARY, "caption", "--help")
    assert done.stdout.startswith("usage: change-captioning caption ")


@pytest.mark.parametrize("name", __main__.COMMANDS)
def test_every_command_of_the_wheel_is_one_of_the_repository(name):
    assert (ROOT / __main__.COMMANDS[name] / f"{name}.py").is_file()


@pytest.mark.parametrize("library", __main__.EXTRAS)
def test_a_missing_extra_is_named(library, monkeypatch):
    def lacking(_):
        raise ModuleNotFoundError("no", name=f"{library}.part")

    monkeypatch.setattr(__main__, "import_module", lacking)
    with pytest.raises(
        InputError, match=rf"pip install 'change-captioning-lab\[{__main__.EXTRAS[library]}\]'"
    ):
        __main__._run("demo")


def test_another_missing_module_is_a_bug(monkeypatch):
    monkeypatch.setattr(__main__, "COMMANDS", {"gone": "commands"})
    with pytest.raises(ModuleNotFoundError):
        __main__._run("gone")


def test_every_extra_and_the_command_are_in_pyproject():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {*__main__.EXTRAS.values()} <= {*project["optional-dependencies"]}
    assert project["scripts"] == {"change-captioning": f"{__main__.__name__}:main"}
    plain = {re.split("[<>=]", each)[0] for each in project["dependencies"]}
    assert not plain & {"dvc", "dvclive", "gradio"}


def test_it_has_every_module_with_rewritten_imports(site):
    for top in PACKAGES:
        for source in sorted((ROOT / top).rglob("*.py")):
            text = (site / LIBRARY / source.relative_to(ROOT)).read_text(encoding="utf-8")
            assert text.count("\n") == source.read_text(encoding="utf-8").count("\n"), source
            assert not tops_of(text) & {*PACKAGES}, source
        others = [
            path for path in (ROOT / top).rglob("*") if path.is_file() and "__pycache__" not in path.parts
        ]
        assert all((site / LIBRARY / path.relative_to(ROOT)).is_file() for path in others)


def tops_of(text):
    """Return the top-level packages of all imports."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


@pytest.mark.parametrize(
    ("source", "built"),
    [
        ("import models", "import L.models; from L import models"),
        ("import models.common.entry", "import L.models.common.entry; from L import models"),
        ("import models.scorer as scorer", "import L.models.scorer as scorer"),
        ("from models import MODELS", "from L.models import MODELS"),
        ("def f():\n    from pipeline.io import outputs", "def f():\n    from L.pipeline.io import outputs"),
        ("from pipeline.io import (\n    errors,\n)", "from L.pipeline.io import (\n    errors,\n)"),
        ("from tokenizers import models", "from tokenizers import models"),
        ("import models_of_others", "import models_of_others"),
        ("x = 'from models import y'", "x = 'from models import y'"),
        ('"""python -m commands.caption A"""', '"""change-captioning caption A"""'),
    ],
)
def test_imports_are_rewritten(source, built):
    assert building.rewritten(source) == built.replace("L.", f"{LIBRARY}.").replace(
        "from L ", f"from {LIBRARY} "
    )


@pytest.mark.parametrize("source", ["from  models import MODELS", "from models \\\n    import MODELS"])
def test_an_import_that_cannot_be_rewritten_stops_the_build(source):
    with pytest.raises(SetupError, match="write the import as"):
        building.rewritten(source)


def test_an_editable_installation_is_refused():
    with pytest.raises(SetupError, match="no editable installation"):
        building.NotEditable(Distribution()).run()


def test_the_same_names_work_in_the_repository():
    from change_captioning_lab import captioner, judge, metrics

    assert Path(captioner.__file__).parent == ROOT / LIBRARY
    for module in (captioner, judge, metrics):
        assert all(hasattr(module, name) for name in module.__all__)
