"""Every row that a GPU is to be measured by, in the order of worth, each with its own time.

    python -m benchmarks gpu --minutes 8 --out DIR [--small] [--rows matching step …]

A row is a process of its own (gpu_row.py), ended when its time is over. What it has found is a line of
DIR/rows.jsonl at once, with the machine, versions and clocks; a row that fails leaves its error there, and
the next one begins. DIR/table.markdown is written anew after each row; DIR/log.txt holds what they said.
Called again with the same DIR it goes on with the rows that are not done. No DVC, no Java, no network.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Timer
from typing import Any

from benchmarks import gpu_machine
from benchmarks.gpu_table import markdown

# seconds that each may take on a GPU; those of correctness first
ROWS = {
    "kernels": 75,
    "types": 75,
    "add_gradients": 60,
    "determinism": 60,
    "matching": 75,
    "step": 120,
    "iterations": 90,
    "extraction": 100,
    "compiled": 150,
    "decoding": 75,
    "batches": 60,
    "growth": 75,
}
SLOWER = 4  # times: two cores
LEAST = 10.0  # seconds that it makes sense to begin a row with
TABLE = "table.markdown"
ROOT = Path(__file__).resolve().parent.parent
Line = dict[str, Any]


def main() -> None:
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the running row is ended, too
    deadline = time.monotonic() + 60 * arguments.minutes
    arguments.out.mkdir(parents=True, exist_ok=True)
    done = {line["row"] for line in _lines(arguments.out) if line.get("status") == "done"}
    for row in arguments.rows or [row for row in ROWS if row not in done]:
        left = deadline - time.monotonic()
        limit = min(left, ROWS[row] * (SLOWER if arguments.small else 1))
        if left < LEAST:
            _append(arguments.out, {"row": row, "status": "not begun", "error": "no time was left"})
        else:
            _run(row, limit, arguments)
        (arguments.out / TABLE).write_text(markdown(_lines(arguments.out)), encoding="utf-8")
    print((arguments.out / TABLE).read_text(encoding="utf-8"))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks gpu", description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=8.0, help="for all rows together (default: 8)")
    parser.add_argument("--out", type=Path, required=True, help="the folder of what is found")
    parser.add_argument("--small", action="store_true", help="sizes for two cores, to try the command")
    parser.add_argument("--rows", nargs="+", choices=ROWS, help="these alone, though they may be done")
    return parser.parse_args()


def command(row: str, small: bool) -> list[str]:
    """What computes a row."""
    return [sys.executable, "-m", "benchmarks.gpu_row", row, *(["--small"] if small else [])]


def _run(row: str, limit: float, arguments: argparse.Namespace) -> None:
    """One row in a process group of its own; no process of it is left behind."""
    start, machine = time.monotonic(), gpu_machine.facts()
    _append(arguments.out, {"row": row, "status": "begun", "error": "it has not ended"})
    late: list[bool] = []
    with _started(row, limit, arguments) as process:
        watch = Timer(limit, lambda: (late.append(True), _end(process)))
        watch.start()
        try:
            assert process.stdout
            for line in process.stdout:
                _append(arguments.out, {"row": row, **json.loads(line), **machine, **gpu_machine.now()})
            code = process.wait()
        finally:
            watch.cancel()
            _end(process)
    ended: Line = {"row": row, "status": "done", "seconds": round(time.monotonic() - start, 1)}
    if late:
        ended |= {"status": "out of time", "error": f"ended after {limit:.0f} s"}
    elif code:
        ended |= {"status": "failed", "error": _error(arguments.out / "log.txt", code)}
    _append(arguments.out, ended)
    print(f"{row}: {ended['status']}, {ended['seconds']} s {ended.get('error', '')}", flush=True)


def _started(row: str, limit: float, arguments: argparse.Namespace) -> subprocess.Popen[bytes]:
    """The row's process. The end of its standard input tells it that this one was killed."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    pipe, own = subprocess.PIPE, os.environ | {"PYTHONPATH": path}
    with (arguments.out / "log.txt").open("ab", buffering=0) as log:
        log.write(f"\n── {row}, at most {limit:.0f} s ──\n".encode())
        return subprocess.Popen(
            command(row, arguments.small), stdin=pipe, stdout=pipe, stderr=log, env=own, process_group=0
        )  # fmt: skip


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _error(log: Path, code: int) -> str:
    """The last line that the row said."""
    said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f"exit code {code}: {said[-1][:300]}"


def _append(out: Path, line: Line) -> None:
    """On the disk before it returns, after a line that a kill left unfinished, too."""
    with (out / "rows.jsonl").open("ab") as file:
        file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _lines(out: Path) -> list[Line]:
    path = out / "rows.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []
