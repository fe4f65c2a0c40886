"""One row of `python -m benchmarks gpu` in a process of its own: a line of JSON for each thing found.

`python -m benchmarks.gpu_row ROW [--small]`
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict

# before CUDA begins: what pipeline/compute/devices.py asks for
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch

from benchmarks import gpu_correctness, gpu_feeding, gpu_speed
from benchmarks.gpu_found import FULL, RIGHT, SMALL, Found, Size

ROWS: dict[str, Callable[[Size], Iterator[Found]]] = {
    "kernels": gpu_correctness.kernels,
    "types": gpu_correctness.types,
    "add_gradients": gpu_correctness.added_gradients,
    "determinism": gpu_correctness.determinism,
    "matching": gpu_speed.matchings,
    "step": gpu_speed.steps,
    "compiled": gpu_speed.compiled,
    "growth": gpu_speed.growth,
    "iterations": gpu_feeding.iterations,
    "extraction": gpu_feeding.extracted,
    "decoding": gpu_feeding.decoded,
    "batches": gpu_feeding.batches,
}


def main() -> None:
    threading.Thread(target=_follow, daemon=True).start()
    # what libraries print is no line of ours
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    # float32 is float32 on both sides
    torch.backends.cudnn.allow_tf32 = False
    size = SMALL if "--small" in sys.argv else FULL
    for found in ROWS[sys.argv[1]](size):
        if found.goal != RIGHT and not torch.cuda.is_available():
            found.reached = None  # the goals are a GPU's
        print(json.dumps(asdict(found), ensure_ascii=False), file=lines, flush=True)


def _follow() -> None:
    """End, with all that was started, when whoever started this was killed."""
    os.read(0, 1)  # nothing is ever written to it
    os.killpg(os.getpgid(0), signal.SIGKILL)


if __name__ == "__main__":
    main()
