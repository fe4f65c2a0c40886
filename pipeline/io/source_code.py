"""Source files of this repository that a program runs: its own and its imports, found by parsing.

DVC does not see imports. So the stage `settings` writes these files' hashes for every stage, and the other
stages depend on them. Recipes and the keys of studies' runs and of scratch folders have the hashes too.
"""

import ast
import hashlib
import inspect
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

from pipeline.io.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("models", "pipeline", "stages", "commands")
# These depend on a recipe, which has the hashes of its model's files. With all of models/ here, an edit of
# one model would retrain the others.
BY_RECIPE = frozenset({"pretrain", "train", "decode"})


def of_stage(name: str, root: Path = ROOT) -> dict[str, str]:
    """Return path -> sha256 of the files that a stage runs; without models/ if a recipe has them."""
    found = of_module(root / "stages" / f"{name}.py", root)
    return {path: of for path, of in found.items() if name not in BY_RECIPE or not path.startswith("models/")}


def of_module(path: Path, root: Path = ROOT) -> dict[str, str]:
    """Return path -> sha256 of the files that a module runs."""
    files = {str(file.relative_to(root)): file for file in closure(path, root)}
    return {name: hashlib.sha256(files[name].read_bytes()).hexdigest() for name in sorted(files)}


def of_class(found: Callable[..., Any]) -> dict[str, str]:
    """Return path -> sha256 of the files of the module that defines a class, function or partial."""
    return of_module(Path(inspect.getfile(getattr(found, "func", found))).resolve())


def closure(path: Path, root: Path = ROOT) -> set[Path]:
    """Return a module, its direct and indirect imports, and the data files in their folders."""
    found, waiting = set(), [path]
    place = cache(partial(_file, root=root))
    while waiting:
        if (file := waiting.pop()) not in found:
            found.add(file)
            waiting += _imports(file, place)
    return found | {beside for file in found for beside in _beside(file)}


def imports(path: Path, root: Path = ROOT) -> set[Path]:
    """Return the repository's files that a module imports.

    `from a import b` imports the module a.b if it exists, else a. Imports inside functions count. The
    __init__.py of packages above a module do not, because they do nothing.
    Raises InputError if the file is no Python, or has relative imports.
    """
    return _imports(path, partial(_file, root=root))


def _imports(path: Path, place: Callable[[str], Path | None]) -> set[Path]:
    try:
        names = _names(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise InputError(f"{path} cannot be read as Python of ours ({error}); correct it") from None
    found = {place(f"{name}.{part}") or place(name) if part else place(name) for name, part in names}
    return {file for file in found if file is not None}


@cache
def _names(source: bytes) -> frozenset[tuple[str, str]]:
    """Return the imports of our packages: (`a`, `b`) for `from a import b`, (`a`, ``) for `import a`."""
    return frozenset(
        names
        for node in ast.walk(ast.parse(source))
        for names in _imported(node)
        if names[0].partition(".")[0] in PACKAGES
    )


def _imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Import):
        yield from ((alias.name, "") for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        if node.level or node.module is None:
            raise ValueError(f"line {node.lineno}: imports must be written in full")
        yield from ((node.module, alias.name) for alias in node.names)


def _file(name: str, root: Path) -> Path | None:
    """Return the file of one of our modules; of a package, its __init__.py."""
    base = root.joinpath(*name.split("."))
    return next((file for file in (base.with_suffix(".py"), base / "__init__.py") if file.exists()), None)


def _beside(file: Path) -> Iterable[Path]:
    """Return the files other than Python (templates) in the folder of a module that uses __file__."""
    if file.suffix == ".py" and b"__file__" in file.read_bytes():
        return (path for path in file.parent.iterdir() if path.is_file() and path.suffix != ".py")
    return ()


def revision(root: Path = ROOT) -> str | None:
    """Return the checkout's commit, with `+changes` if files differ from it; None outside git.

    If git refuses the checkout, for example because of its owner, a note is printed.
    """
    command = ["git", "describe", "--always", "--abbrev=40", "--dirty=+changes"]
    try:
        described = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    except OSError:  # there is no git
        return None
    if described.returncode and (root / ".git").exists():
        said = described.stderr.partition("\n")[0]
        trust = f"; `git config --global --add safe.directory '{root}'` allows it" if "owner" in said else ""
        print(f"note: git does not tell the commit of this code: {said}{trust}", file=sys.stderr)
    return described.stdout.strip() or None
