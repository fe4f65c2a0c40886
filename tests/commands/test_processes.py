"""Commands in processes of their own: errors are found before torch is imported."""

import subprocess
import sys

import pytest

from tests.running import ROOT

CALL = """
import importlib, sys
from pipeline.io.errors import InputError
name, *arguments = sys.argv[1:]
sys.argv = [name, *arguments]
try:
    importlib.import_module(f"commands.{name}").main()
except InputError as error:
    print(error)
    sys.exit(3 if "torch" in sys.modules else 2)
"""


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("caption gone.png docs/sample/after.png --weights demo/clip4idc", "gone.png"),
        ("caption docs/sample/before.png docs/sample/after.png --weights demo/gone", "demo/gone"),
        ("caption --pairs gone.csv --out out.jsonl --weights demo/clip4idc", "gone.csv"),
        ("caption docs/sample/before.png --weights demo/clip4idc", "before and an after"),
        ("demo --weights demo/clip4idc demo/gone", "demo/gone"),
        ("truth --weights demo/clip4idc --labelled gone", "gone"),
        ("tune --pairs gone --images params.yaml --scenes params.yaml --out x.safetensors", "gone"),
    ],
)
def test_a_missing_file_is_named_before_torch_is_imported(command, named):
    done = subprocess.run(
        [sys.executable, "-c", CALL, *command.split()], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert named in done.stdout
