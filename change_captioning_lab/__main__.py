"""Run a command that needs no repository. After `pip install`, this program is called `change-captioning`.

change-captioning COMMAND …
change-captioning COMMAND --help     show the command's arguments
"""

import sys
from functools import partial
from importlib import import_module

from pipeline.cli.running import run
from pipeline.io.errors import InputError

INSIDE = run.__module__.removesuffix("pipeline.cli.running")  # the package around `pipeline`, with a dot
COMMANDS = {
    "agreement": "commands",
    "caption": "commands",
    "compare": "commands",
    "demo": "commands",
    "errors": "commands",
    "export": "commands",
    "judge": "commands",
    "publish": "commands",
    "score": "stages",
    "truth": "commands",
}
"""Command -> the package of its module."""
EXTRAS = {"dvc": "lab", "dvclive": "lab", "gradio": "demo", "starlette": "demo", "pyarrow": "publish"}
"""Library that a plain installation lacks -> the extra that has it."""


def main() -> None:
    """Run the command that the first argument names."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name in ("-h", "--help"):
        print(f"{(__doc__ or '').strip()}\n\nCOMMAND: {', '.join(COMMANDS)}")
    else:
        run(partial(_run, name))


def _run(name: str) -> None:
    if name not in COMMANDS:
        raise InputError(
            f"{name or 'no name'!r} is no command; name one of {', '.join(COMMANDS)}; the others need the "
            "repository and are in its folder commands"
        )
    try:
        module = import_module(f"{INSIDE}{COMMANDS[name]}.{name}")
        sys.argv = [str(module.__file__), *sys.argv[2:]]
        module.main()
    except ModuleNotFoundError as error:
        if (extra := EXTRAS.get(str(error.name).partition(".")[0])) is None:
            raise
        remedy = f"run pip install 'change-captioning-lab[{extra}]'"
        raise InputError(f"{name} needs {error.name}, which is not installed; {remedy}") from None


if __name__ == "__main__":
    main()
