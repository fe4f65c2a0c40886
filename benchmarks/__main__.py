"""`python -m benchmarks NAME …` measures our code against reference implementations, and prints a table.

    reading     random features from the store, against .npy files and zarr-python
    extraction  features of PNG files, against the network alone
    matching    token-wise matching, against an implementation that stores all similarities
    decoding    greedy search, against a search without cached keys and values
    scoring     caption metrics, against pycocoevalcap
    step        a training step of SCORER+CBR, against the plainest program (up to 10 minutes; only if named)

Before the timing, a check ensures that both sides give the same numbers. Other commands:

    gpu         measure a GPU; each measurement has a time limit (gpu.py)
    oracle      write features that are made from the scene descriptions (oracle.py)
    reality     compare scores on rendered test pairs with scores on labelled real images (reality.py)
    first_answer  start and first answer of programs, against an earlier commit (first_answer.py)
    default_run  each stage of the default run, against an earlier commit (default_run.py)
    blender     time of the look blender, and what its few rays per pixel cost (blender.py)
"""

import os
import sys
from importlib import import_module

from pipeline.io.errors import InputError
from stages import run

# modules are imported when they run, because a machine with a GPU may lack Java, metrics and plotting
SIDE_BY_SIDE = ("reading", "extraction", "matching", "decoding", "scoring", "step")
MODULES = {"step": "training"}  # benchmark -> module, if their names differ
COMMANDS = ("gpu", "oracle", "reality", "first_answer", "default_run", "blender")


def main() -> None:
    chosen = sys.argv[1:] or [name for name in SIDE_BY_SIDE if name != "step"]
    if chosen[0] in COMMANDS:
        sys.argv[1:] = chosen[1:]
        import_module(f"benchmarks.{chosen[0]}").main()
        return
    if unknown := [name for name in chosen if name not in SIDE_BY_SIDE]:
        raise InputError(f"no benchmark is called {unknown[0]!r}; choose of {', '.join(SIDE_BY_SIDE)}")
    modules = [import_module(f"benchmarks.{MODULES.get(name, name)}") for name in chosen]
    rows = [row for module in modules for row in module.rows()]

    import torch
    from rich.console import Console
    from rich.table import Table

    columns = ("what", "reference", "ours", "reference's", "ratio")
    table = Table(*columns, title=f"{os.cpu_count()} cores, torch {torch.__version__}")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


if __name__ == "__main__":
    run(main)
