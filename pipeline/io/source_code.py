"""Find the source files of this repository that a program uses: its own file and all imported files.

DVC does not know imports. Therefore the stage "settings" writes the hashes of these files for every stage,
and the other stages depend on the hashes. Recipes, scratch folders and studies use the hashes too.
"""

import ast
import hashlib
import inspect
import os
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from pipeline.io.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("models", "pipeline", "stages", "commands")
# These stages depend on a recipe, which has the hashes of its model's files. If they depended on all files of
# models/, an edit of one model would retrain all models.
BY_RECIPE = frozenset({"pretrain", "train", "decode"})
TABLE = "models/__init__.py"  # the table of all models, MODELS, and functions that build a model


def of_stage(name: str, root: Path = ROOT) -> dict[str, str]:
    """Return a stage's source files: path -> SHA-256.

    For the stages "pretrain", "train" and "decode", the files of models/ are left out, except the table of
    models. The recipe of these stages already contains the hashes of the model's files. The hash of the
    table is that of its text without the entries of MODELS; the recipe has the entry of its model.
    """
    files = of_module(root / "stages" / f"{name}.py", root)
    if name not in BY_RECIPE:
        return files
    left = {path: digest for path, digest in files.items() if not path.startswith("models/")}
    if TABLE in files:
        left[TABLE] = _hash(table_of_models((root / TABLE).read_text("utf-8"))[0].encode())
    return dict(sorted(left.items()))


def of_model(model: str, build: Callable[..., Any], root: Path = ROOT) -> dict[str, str]:
    """Return path -> SHA-256 of the files that build a model, and of the model's entry in the table."""
    entry = table_of_models((root / TABLE).read_text("utf-8"))[1][model]
    return dict(sorted({**of_class(build), TABLE: _hash(entry.encode())}.items()))


def table_of_models(text: str) -> tuple[str, dict[str, str]]:
    """Split the text of models/__init__.py: the text without models, and model -> its entry in MODELS.

    The text without models has neither the entries of MODELS nor the imports that only the entries use.
    Raises InputError if the text does not assign a dictionary to MODELS.
    """
    body = ast.parse(text).body
    tables = [
        node for node in body if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "MODELS"
    ]
    others = [node for node in body if node not in tables]
    if not tables or not isinstance(table := tables[0].value, ast.Dict):
        raise InputError(f"{TABLE} must have a table of models: `MODELS: dict[str, Entry] = {{...}}`")
    of_models = _names(table) - _names(*others)
    imports = [node for node in others if isinstance(node, ast.ImportFrom)]
    left_out: list[Any] = [
        node for node in imports if {alias.asname or alias.name for alias in node.names} <= of_models
    ]
    left_out += table.values
    removed = {number for node in left_out for number in range(node.lineno, node.end_lineno + 1)}
    lines = enumerate(text.splitlines(keepends=True), 1)
    rest = "".join(line for number, line in lines if number not in removed)
    entries = zip(table.keys, table.values, strict=True)
    return rest, {str(key.value): ast.unparse(each) for key, each in entries if isinstance(key, ast.Constant)}


def _names(*nodes: ast.AST) -> set[str]:
    return {each.id for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name)}


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def of_module(path: Path, root: Path = ROOT) -> dict[str, str]:
    """Return the source files that a module uses: path -> SHA-256.

    They are the file of the module, and the files of its direct and indirect imports. If one of these files
    uses __file__, the result also has the files in its folder that are not Python code, and the Python
    files that it names, such as a program that it starts.
    """
    used_files, unread_files, modules = set(), [path], _module_files(root)
    while unread_files:
        if (file := unread_files.pop()) not in used_files:
            used_files.add(file)
            unread_files += _imports(file, modules)
    for file in list(used_files):
        if b"__file__" in (source := file.read_bytes()):
            used_files |= {other for other in file.parent.iterdir() if _is_read(other, source)}
    files = {str(file.relative_to(root)): file for file in used_files}
    return {name: _hash(files[name].read_bytes()) for name in sorted(files)}


def _is_read(file: Path, source: bytes) -> bool:
    return file.is_file() and (file.suffix != ".py" or f'"{file.name}"'.encode() in source)


def of_class(defined: Callable[..., Any]) -> dict[str, str]:
    return of_module(Path(inspect.getfile(getattr(defined, "func", defined))).resolve())


def imports(path: Path, root: Path = ROOT) -> set[Path]:
    """Return the files of the repository that a module imports, also inside functions.

    `from a import b` imports the module a.b if it exists, else a. Python also runs the __init__.py files of
    the packages above a module. These files do nothing, and are left out. Raises InputError for invalid
    Python or relative imports.
    """
    return _imports(path, _module_files(root))


def _imports(path: Path, modules: dict[str, Path]) -> set[Path]:
    try:
        names = _imported_names(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise InputError(f"{path} cannot be read as Python of ours ({error}); correct it") from None
    # "a." if nothing is imported from a module
    files = {modules.get(f"{name}.{part}") or modules.get(name) for name, part in names}
    return {file for file in files if file is not None}


@cache
def _imported_names(source: bytes) -> frozenset[tuple[str, str]]:
    """Return the modules of this repository that a Python file imports, as pairs of names.

    `source` is the text of the file. `from a import b` gives ("a", "b"), and `import a` gives ("a", "").
    Imports from packages that are not in PACKAGES are left out. Raises ValueError for relative imports.
    """
    imported: set[tuple[str, str]] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imported |= {(alias.name, "") for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            if node.level or node.module is None:
                raise ValueError(f"line {node.lineno}: imports must be written in full")
            imported |= {(node.module, alias.name) for alias in node.names}
    return frozenset((module, name) for module, name in imported if module.partition(".")[0] in PACKAGES)


def _module_files(root: Path) -> dict[str, Path]:
    """Return module -> its file, and package -> its __init__.py, of all modules in PACKAGES."""
    files: dict[str, Path] = {}
    for package in PACKAGES:
        for folder, _, names in os.walk(root / package):
            path = Path(folder)
            prefix = ".".join(path.relative_to(root).parts)
            files |= {f"{prefix}.{name[:-3]}": path / name for name in names if name.endswith(".py")}
    packages = {name.removesuffix(".__init__"): file for name, file in files.items()}
    return packages | files  # of a module and a package of one name, the module


def revision(root: Path = ROOT) -> str | None:
    """Return the commit of this checkout, with `+changes` if files differ from it; None without git."""
    text = git(root, "describe", "--always", "--abbrev=40", "--dirty=+changes")
    return None if text is None else text.strip()


def git(root: Path, *arguments: str) -> str | None:
    """Return what a command of git prints in the folder `root`; None if the command fails."""
    try:
        command = ["git", *arguments]
        return subprocess.run(command, cwd=root, capture_output=True, encoding="utf-8", check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
