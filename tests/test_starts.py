"""Heavy packages that each stage and command imports when it starts, here with --help.

A package of HEAVY takes a tenth of a second to seconds. A program imports it where it uses it, unless the
table names it. `python -m tests.test_starts NAME …` prints what programs import.
"""

import importlib
import json
import os
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = {
    *("torch", "torch._dynamo", "torchvision", "timm", "numba", "scipy", "pandas", "matplotlib", "gradio"),
    *("transformers", "tensorstore", "zarr", "tokenizers", "ftfy", "datasets", "tensorboard", "dvclive"),
}
DRAWS = {"numba", "scipy"}  # Numba imports the package scipy itself, but none of its modules
TABLES = {"torch", "pandas"}
# Module -> packages that its import may import. One process imports these modules in this order, and copies
# of it run the programs: a program runs as soon as the modules that it may import are there.
ORDER: dict[str, set[str]] = {
    "pipeline.config.params": set(),
    "torch": {"torch"},
    "models": {"torch"},
    "pandas": TABLES,
    "matplotlib": TABLES | {"matplotlib"},
}
# models that decide which settings and weights exist need torch
STARTS: dict[str, set[str]] = {
    "stages.constant": set(),
    "stages.decode": {"torch"},
    "stages.extract": {"torch"},
    "stages.prepare": set(),
    "stages.pretrain": {"torch"},
    "stages.recipe": {"torch"},
    "stages.render": DRAWS,
    "stages.report": {"pandas"},
    "stages.score": set(),
    "stages.settings": {"torch"},
    "stages.train": {"torch"},
    "stages.vocab": set(),
    "commands.agreement": TABLES,
    "commands.annotators": set(),
    "commands.calibrate": set(),
    "commands.caption": set(),
    "commands.check_data": {"torch"},
    "commands.check_scores": set(),
    "commands.compare": set(),
    "commands.demo": set(),
    "commands.errors": TABLES | {"matplotlib"},
    "commands.export": {"torch"},
    "commands.import_checkpoint": {"torch"},
    "commands.import_clip": {"torch"},
    "commands.judge": set(),
    "commands.negatives": set(),
    "commands.new_dataset": set(),
    "commands.parts": TABLES,
    "commands.probe": DRAWS | {"torch"},
    "commands.publish": set(),
    "commands.record": TABLES,
    "commands.results": TABLES | {"matplotlib"},
    "commands.retrieve": {"torch"},
    "commands.sensitivity": {"matplotlib"},
    "commands.show_settings": {"torch"},
    "commands.study": TABLES,
    "commands.truth": set(),
    "commands.tune": set(),
}


def test_every_program_is_in_the_table():
    files = [*(ROOT / "stages").glob("[!_]*.py"), *(ROOT / "commands").glob("[!_]*.py")]
    assert set(STARTS) == {f"{path.parent.name}.{path.stem}" for path in files}


@pytest.mark.slow
@pytest.mark.parametrize("with_torch", [False, True])
def test_programs_import_only_the_packages_of_the_table(with_torch):
    allowed = {name: heavy for name, heavy in STARTS.items() if ("torch" in heavy) is with_torch}
    allowed |= {name: heavy for name, heavy in ORDER.items() if with_torch or not heavy}
    steps = {name: sum(step <= heavy for step in ORDER.values()) for name, heavy in allowed.items()}
    names = sorted(allowed, key=lambda name: (steps[name], name not in ORDER))
    command = [sys.executable, "-m", "tests.test_starts", *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = {name: set(heavy) for name, heavy in map(json.loads, done.stdout.splitlines())}
    extra = {name: sorted(found[name] - allowed[name]) for name in names}
    assert {name: heavy for name, heavy in extra.items() if heavy} == {}


@pytest.mark.slow
def test_a_caption_needs_torch_and_none_of_the_other_packages():
    """Caption the sample with the shipped weights, in a process in which the other packages do not exist."""
    program = f"""
import runpy, sys
sys.modules |= dict.fromkeys({sorted(HEAVY - {"torch"})!r})  # None: an import raises ImportError
sys.argv[1:] = ["docs/sample/before.png", "docs/sample/after.png", "--weights", "demo/clip4idc"]
runpy.run_module("commands.caption", run_name="__main__", alter_sys=True)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.startswith("the large brown matte ball turned blue  (probability 0.")


def starts(names: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each program with the heavy packages that its start imports, each in a process of its own.

    The processes are copies of this one, which imports the modules of ORDER among the names once for all.
    """
    for name in names:
        if name in ORDER:
            importlib.import_module(name)
            yield name, sorted(HEAVY & sys.modules.keys())
            continue
        receive, send = os.pipe()
        if not os.fork():
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            sys.argv[:] = [name, "--help"]
            try:
                runpy.run_module(name, run_name="__main__", alter_sys=True)
            except SystemExit as ending:
                failed = bool(ending.code)
            with os.fdopen(send, "w") as answer:
                answer.write(json.dumps(sorted(HEAVY & sys.modules.keys()) + ["an error"] * failed))
            os._exit(0)
        os.close(send)
        with os.fdopen(receive) as answer:
            yield name, json.loads(answer.read())
        os.wait()


if __name__ == "__main__":
    for program, packages in starts(sys.argv[1:]):
        print(json.dumps([program, packages]), flush=True)
