"""Which source files a program of ours runs: its own and all that it imports, found without running it.

DVC does not see imports. So the stage `settings` writes what is found here for every stage, by hash, and the
others depend on that; recipes, the keys of studies' cells and of scratch folders, and tests ask here, too.
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
# These depend on a recipe, in which the files of its model stand by hash: with all of models/ here an edit of
# one model would train the others anew.
BY_RECIPE = frozenset({"pretrain", "train", "decode"})


def of_stage(name: str, root: Path = ROOT) -> dict[str, str]:
    """sha256 of each file that a stage runs, by its path; without models/ where a recipe has them."""
    found = of_module(root / "stages" / f"{name}.py", root)
    return {path: of for path, of in found.items() if name not in BY_RECIPE or not path.startswith("models/")}


def of_module(path: Path, root: Path = ROOT) -> dict[str, str]:
    """The same of a module."""
    files = {str(file.relative_to(root)): file for file in closure(path, root)}
    return {name: hashlib.sha256(files[name].read_bytes()).hexdigest() for name in sorted(files)}


def of_class(found: Callable[..., Any]) -> dict[str, str]:
    """The same of the module that a class, a function, or what a partial calls, stands in."""
    return of_module(Path(inspect.getfile(getattr(found, "func", found))).resolve())


def closure(path: Path, root: Path = ROOT) -> set[Path]:
    """A module, all that it imports, directly or not, and what they read of their own folders."""
    found, waiting = set(), [path]
    place = cache(partial(_file, root=root))  # the same names come again and again
    while waiting:
        if (file := waiting.pop()) not in found:
            found.add(file)
            waiting += _imports(file, place)
    return found | {beside for file in found for beside in _beside(file)}


def imports(path: Path, root: Path = ROOT) -> set[Path]:
    """Files of ours that a module imports by name: `from a import b` is b in the folder a, if there, else a.

    An import within a function counts as any other. A package that is passed on the way to a module does not,
    for ours do nothing. Raises InputError for what is no Python, or imports relatively.
    """
    return _imports(path, partial(_file, root=root))


def _imports(path: Path, place: Callable[[str], Path | None]) -> set[Path]:
    """`place` finds the file of a module by its name."""
    try:
        names = _names(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise InputError(f"{path} cannot be read as Python of ours ({error}); mend it") from None
    found = {place(f"{name}.{part}") or place(name) if part else place(name) for name, part in names}
    return {file for file in found if file is not None}


@cache
def _names(source: bytes) -> frozenset[tuple[str, str]]:
    """What a module imports of ours: (`a`, `b`) of `from a import b`, (`a`, ``) of `import a`."""
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
    """The file of a module of ours; a package is its __init__.py."""
    base = root.joinpath(*name.split("."))
    return next((file for file in (base.with_suffix(".py"), base / "__init__.py") if file.exists()), None)


def _beside(file: Path) -> Iterable[Path]:
    """Where a module asks for its own folder: the files there that are no Python's, as a page's template."""
    if file.suffix == ".py" and b"__file__" in file.read_bytes():
        return (path for path in file.parent.iterdir() if path.is_file() and path.suffix != ".py")
    return ()


def revision(root: Path = ROOT) -> str | None:
    """The checkout's commit, with `+changes` where files differ from it; None outside git.

    Where git refuses a checkout, as one of another owner, that is said on standard error.
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
