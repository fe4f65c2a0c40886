"""Run `make` in a folder with the Makefile and with programs that print their arguments."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROGRAMS = ("python", "uv", "dvc", "ruff", "mypy")
PROGRAM = '#!/bin/sh\nprintf "[%s]" "$(basename "$0")" "$@"; echo\n'


@dataclass
class Making:
    folder: Path

    def __call__(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        command = ["make", "--no-print-directory", *arguments]
        # variables that an outer `make test TESTS=…` exports
        outer = ("NAME", "DATASET", "SEEDS", "TESTS", "MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS")
        own = {name: value for name, value in os.environ.items() if name not in outer} | environment
        return subprocess.run(command, cwd=self.folder, env=own, capture_output=True, text=True, check=False)


def making(folder: Path) -> Making:
    """Copy the Makefile into an empty folder."""
    for name in ("Makefile", "requirements.lock", "blender.lock"):
        shutil.copy(ROOT / name, folder)
    for name in (*(f".venv/bin/{name}" for name in PROGRAMS), "demo/train"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(PROGRAM)
        (folder / name).chmod(0o755)
    (folder / ".venv/ready").touch()
    (folder / ".blender").mkdir()
    (folder / ".blender/ready").touch()
    return Making(folder)
