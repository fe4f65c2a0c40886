"""Build the wheel: all packages of the repository inside the one package change_captioning_lab.

In the repository, models, pipeline, stages and commands are at the top level and import each other by these
names. In site-packages, other packages could have these names. So the build puts the packages into
change_captioning_lab and rewrites their imports, line by line. The sources stay unchanged, and an installed
file has the line numbers of its source. pyproject.toml has all other settings.
"""

import ast
import re
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py
from setuptools.command.editable_wheel import editable_wheel
from setuptools.errors import SetupError

LIBRARY = "change_captioning_lab"
INSIDE = ("models", "pipeline", "stages", "commands")
COMMAND = re.compile(r"python -m (?:commands|stages)\.(\w+)")
DATA = ["*.j2", "*.css", "*.js", "*.json", "*.yaml"]


def rewritten(source: str) -> str:
    """Return a module's source as it stands in an installed wheel, with other imports and command names.

    Raises SetupError for an import that cannot be rewritten, so that no broken wheel is built.
    """
    lines = source.split("\n")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom) and (new := _imported(node)):
            line = lines[node.lineno - 1]
            old, text = new
            if not line[node.col_offset :].startswith(old):
                raise SetupError(f"{line.strip()}: write the import as `{old}`, on one line")
            lines[node.lineno - 1] = line[: node.col_offset] + text + line[node.col_offset + len(old) :]
    return COMMAND.sub(r"change-captioning \1", "\n".join(lines))


def _imported(node: ast.Import | ast.ImportFrom) -> tuple[str, str] | None:
    """Return the first words of an import statement of our packages, and the text that replaces them.

    Return None for other imports.
    """
    module = (node.module if isinstance(node, ast.ImportFrom) else node.names[0].name) or ""
    top = module.partition(".")[0]
    if top not in INSIDE:
        return None
    if isinstance(node, ast.ImportFrom):
        return f"from {module} import", f"from {LIBRARY}.{module} import"
    if node.names[0].asname:
        return f"import {module} as", f"import {LIBRARY}.{module} as"
    # `import models.x` binds `models`
    return f"import {module}", f"import {LIBRARY}.{module}; from {LIBRARY} import {top}"


class Inside(build_py):
    """Build step that copies each module and rewrites its imports."""

    def build_module(self, module, module_file, package):
        copy, copied = super().build_module(module, module_file, package)
        if copied:
            text = Path(module_file).read_text(encoding="utf-8")
            Path(copy).write_text(rewritten(text), encoding="utf-8")
        return copy, copied


class NotEditable(editable_wheel):
    """Refuses an editable installation.

    The build rewrites the imports of the packaged modules. An editable installation would use the modules
    without this change.
    """

    def run(self):
        raise SetupError("no editable installation: run `make .venv/ready` and work in the repository")


if __name__ == "__main__":
    below = {top: [top, *(f"{top}.{name}" for name in find_packages(top))] for top in INSIDE}
    setup(
        packages=[LIBRARY, *(f"{LIBRARY}.{name}" for names in below.values() for name in names)],
        package_dir={LIBRARY: LIBRARY} | {f"{LIBRARY}.{top}": top for top in INSIDE},
        package_data={"": DATA},
        cmdclass={"build_py": Inside, "editable_wheel": NotEditable},
    )
