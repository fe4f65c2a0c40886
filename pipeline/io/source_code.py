"""Find the source files of this repository that a program uses: its own file and all imported files.

DVC does not know imports. Therefore the stage "settings" writes the hashes of these files for every stage,
and the other stages depend on the hashes. Recipes, scratch folders and studies use the hashes too.
"""

import ast
import hashlib
import inspect
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


def of_stage(name: str, root: Path = ROOT) -> dict[str, str]:
    """Return a stage's source files: path -> SHA-256.

    For the stages "pretrain", "train" and "decode", the files of models/ are left out. The recipe of
    these stages already contains the hashes of the model's files.
    """
    files = of_module(root / "stages" / f"{name}.py", root)
    if name in BY_RECIPE:
        return {path: digest for path, digest in files.items() if not path.startswith("models/")}
    return files


def of_module(path: Path, root: Path = ROOT) -> dict[str, str]:
    """Return the source files that a module uses: path -> SHA-256.

    They are the file of the module, and the files of its direct and indirect imports. If one of these files
    uses __file__, the result also has the files in its folder that are not Python code, and the Python
    files that it names, such as a program that it starts.
    """
    used_files, unread_files = set(), [path]
    while unread_files:
        if (file := unread_files.pop()) not in used_files:
            used_files.add(file)
            unread_files += imports(file, root)
    for file in list(used_files):
        if b"__file__" in (source := file.read_bytes()):
            used_files |= {other for other in file.parent.iterdir() if _is_read(other, source)}
    files = {str(file.relative_to(root)): file for file in used_files}
    return {name: hashlib.sha256(files[name].read_bytes()).hexdigest() for name in sorted(files)}


def _is_read(file: Path, source: bytes) -> bool:
    return file.is_file() and (file.suffix != ".py" or f'"{file.name}"'.encode() in source)


def of_class(defined: Callable[..., Any]) -> dict[str, str]:
    """Return the source files that a class or function uses: path -> SHA-256.

    They are the file that defines it, and the files of this repository that this file imports directly
    or indirectly (see of_module). For a functools.partial, the wrapped function counts.
    """
    return of_module(Path(inspect.getfile(getattr(defined, "func", defined))).resolve())


def imports(path: Path, root: Path = ROOT) -> set[Path]:
    """Return the files of the repository that a module imports, also inside functions.

    `from a import b` imports the module a.b if it exists, else a. Python also runs the __init__.py files of
    the packages above a module. These files do nothing, and are left out. Raises InputError for invalid
    Python or relative imports.
    """
    try:
        names = _imported_names(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise InputError(f"{path} cannot be read as Python of ours ({error}); correct it") from None
    files = {
        (_module_file(f"{name}.{part}", root) if part else None) or _module_file(name, root)
        for name, part in names
    }
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


def _module_file(name: str, root: Path) -> Path | None:
    """Return the file of a module, or the __init__.py of a package; None for other projects' modules."""
    base = root.joinpath(*name.split("."))
    return next((file for file in (base.with_suffix(".py"), base / "__init__.py") if file.exists()), None)


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
