"""Measure a GPU in at most ten minutes; the most important measurements come first.

    python -m benchmarks gpu --minutes 9.5 --out DIR [--small] [--rows matching step …]

A row is a group of measurements (gpu_rows.py). It runs in a process with a time limit. Each result is
immediately appended to DIR/rows.jsonl as a line with machine, versions and load. If a row fails, its error is
appended there, and the next row starts. DIR/table.markdown is rewritten after each row; DIR/log.txt has the
rows' output. Another call with the same DIR runs the rows that are not done. The measurements need no DVC,
Java or network.
"""

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from threading import Timer
from typing import Any

# time limits in seconds on a GPU; rows of correctness first
ROWS = {
    "kernels": 110,
    "types": 75,
    "determinism": 60,
    "matching": 65,
    "step": 100,
    "images": 160,
}
SLOWER = 4  # factor of the time limits on two cores
LEAST = 10.0  # seconds: with less time left, no row starts
HEAD = ("row", "what", "ours", "reference", "ratio", "goal", "reached")
ROOT = Path(__file__).resolve().parent.parent
Line = dict[str, Any]


def main() -> None:
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the running row too
    deadline = time.monotonic() + 60 * arguments.minutes
    arguments.out.mkdir(parents=True, exist_ok=True)
    done = {line["row"] for line in _lines(arguments.out) if line.get("status") == "done"}
    for row in arguments.rows or [row for row in ROWS if row not in done]:
        left = deadline - time.monotonic()
        limit = min(left, ROWS[row] * (SLOWER if arguments.small else 1))
        _forget(arguments.out, row)
        if left < LEAST:
            _append(arguments.out, {"row": row, "status": "not begun", "error": "no time was left"})
        else:
            _run(row, limit, arguments)
        (arguments.out / "table.markdown").write_text(markdown(_lines(arguments.out)), encoding="utf-8")
    print((arguments.out / "table.markdown").read_text(encoding="utf-8"))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks gpu", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--minutes", type=float, default=9.5, help="limit for all rows (default: 9.5)")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--small", action="store_true", help="sizes for two cores, to try the command")
    parser.add_argument("--rows", nargs="+", choices=ROWS, help="run only these rows, even if they are done")
    return parser.parse_args()


def command(row: str, small: bool) -> list[str]:
    return [sys.executable, "-m", "benchmarks.gpu_rows", row, *(["--small"] if small else [])]


def _run(row: str, limit: float, arguments: argparse.Namespace) -> None:
    """Run one row for at most `limit` seconds in a new process group; then end all processes of the group."""
    start, machine = time.monotonic(), {"machine": _machine()}
    late: list[bool] = []
    with _started(row, limit, arguments) as process:
        watch = Timer(limit, lambda: (late.append(True), _end(process)))
        watch.start()
        try:
            assert process.stdout
            for line in process.stdout:
                own = json.loads(line) | machine | {"load": os.getloadavg()[0]}
                _append(arguments.out, {"row": row} | own)
            code = process.wait()
        finally:
            watch.cancel()
            _end(process)
    ended: Line = {"row": row, "status": "done", "seconds": round(time.monotonic() - start, 1)}
    if late:
        ended |= {"status": "out of time", "error": f"ended after {limit:.0f} s"}
    elif code:
        said = (arguments.out / "log.txt").read_text(encoding="utf-8", errors="replace").strip()
        ended |= {"status": "failed", "error": f"exit code {code}: {said.splitlines()[-1][:300]}"}
    _append(arguments.out, ended)
    print(f"{row}: {ended['status']}, {ended['seconds']} s {ended.get('error', '')}", flush=True)


def _started(row: str, limit: float, arguments: argparse.Namespace) -> subprocess.Popen[bytes]:
    """Start a process that runs the row.

    If this process is killed, the standard input of the row's process closes, and the row's process ends.
    """
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


def _append(out: Path, line: Line) -> None:
    with (out / "rows.jsonl").open("ab") as file:
        file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _forget(out: Path, row: str) -> None:
    kept = [line for line in _lines(out) if line["row"] != row]
    (out / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")


def _lines(out: Path) -> list[Line]:
    path = out / "rows.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def _machine() -> str:
    """Describe the machine: GPU, driver, cores and versions. CUDA is not started in this process."""
    command = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        gpu = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        gpu = "no GPU"
    versions = f"Python {platform.python_version()}, torch {version('torch')}"
    return f"{gpu}; {len(os.sched_getaffinity(0))} cores of {platform.machine()}; {versions}"


def markdown(lines: Sequence[Line]) -> str:
    """Return Markdown with a table of the results and a list of the failures."""
    text = [f"| {' | '.join(HEAD)} |", "|" + "---|" * len(HEAD)]
    reached = {True: "yes", False: "no", None: ""}
    for line in (line for line in lines if "what" in line):
        cells = [line["row"], *(str(line[key]) for key in HEAD[1:-1]), reached[line["reached"]]]
        text.append(f"| {' | '.join(cells)} |")
    failed = [line for line in lines if line.get("status", "done") != "done"]
    text += ["", *(f"- {line['row']}: {line['status']}: {line['error']}" for line in failed)]
    text += ["", *dict.fromkeys(line["machine"] for line in lines if "machine" in line)]
    return "\n".join(text) + "\n"
