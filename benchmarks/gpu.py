"""Measure a GPU in at most ten minutes; the most important measurements come first.

    python -m benchmarks gpu --minutes 9.5 --out DIR [--small] [--rows matching step …]

A row is a group of measurements (gpu_rows.py). Each row runs in a process of its own, with a time limit. The
process appends each result to DIR/rows.jsonl. After each row, DIR/table.markdown is rewritten. The output of
the rows is in DIR/log.txt. A later call with the same DIR runs only the rows that are not done.
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
from typing import Any

# time limits in seconds on a GPU; rows of correctness first
ROWS = {"kernels": 110, "types": 75, "determinism": 60, "matching": 65, "step": 100, "images": 160}
SLOWER = 4  # factor of the time limits on two cores
HEAD = ("row", "what", "ours", "reference", "ratio", "goal", "reached")
ROOT = Path(__file__).resolve().parent.parent
Line = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks gpu", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--minutes", type=float, default=9.5, help="limit for all rows (default: 9.5)")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--small", action="store_true", help="sizes for two cores, to try the command")
    parser.add_argument("--rows", nargs="+", choices=ROWS, help="run only these rows, even if they are done")
    arguments = parser.parse_args()
    deadline = time.monotonic() + 60 * arguments.minutes
    out = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    done = {line["row"] for line in lines(out) if line.get("status") == "done"}
    for row in arguments.rows or [row for row in ROWS if row not in done]:
        limit = min(deadline - time.monotonic(), ROWS[row] * (SLOWER if arguments.small else 1))
        run(row, limit, out, arguments.small)
        (out / "table.markdown").write_text(markdown(lines(out)), encoding="utf-8")
    print((out / "table.markdown").read_text(encoding="utf-8"))


def command(row: str, out: Path, small: bool) -> list[str]:
    return [sys.executable, "-m", "benchmarks.gpu_rows", row, str(out), *(["--small"] if small else [])]


def run(row: str, limit: float, out: Path, small: bool) -> None:
    """Run one row for at most `limit` seconds, and append to DIR/rows.jsonl how it ended.

    Results of an earlier run of the row are removed.
    """
    other_lines = [line for line in lines(out) if line["row"] != row]
    (out / "rows.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in other_lines), encoding="utf-8"
    )
    start, outcome = time.monotonic(), {"status": "done"}
    with (out / "log.txt").open("ab") as log:
        process = subprocess.Popen(
            command(row, out, small), cwd=ROOT, stdout=log, stderr=log, start_new_session=True
        )
        try:
            code = process.wait(max(limit, 0))
        except subprocess.TimeoutExpired:
            outcome = {"status": "out of time", "error": f"ended after {limit:.0f} s"}
        else:
            if code:
                log_text = (out / "log.txt").read_text(encoding="utf-8", errors="replace").strip()
                outcome = {
                    "status": "failed",
                    "error": f"exit code {code}: {log_text.splitlines()[-1][:300]}",
                }
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # with the row's own processes
                process.wait()
    append(out, {"row": row, "seconds": round(time.monotonic() - start, 1)} | outcome)
    print(f"{row}: {outcome['status']} {outcome.get('error', '')}", flush=True)


def append(out: Path, line: Line) -> None:
    """Append a line to DIR/rows.jsonl, with the machine and its load."""
    line = line | {"machine": machine(), "load": os.getloadavg()[0]}
    with (out / "rows.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")


def lines(out: Path) -> list[Line]:
    """Return the lines of DIR/rows.jsonl."""
    path = out / "rows.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line] if path.exists() else []


def machine() -> str:
    """Describe the machine: GPU, driver, cores and versions. CUDA is not started in this process."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        gpu = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        gpu = "no GPU"
    versions = f"Python {platform.python_version()}, torch {version('torch')}"
    return f"{gpu}; {os.cpu_count()} cores of {platform.machine()}; {versions}"


def markdown(result_lines: Sequence[Line]) -> str:
    """Return Markdown with a table of the results and a list of the failures."""
    text = [f"| {' | '.join(HEAD)} |", "|" + "---|" * len(HEAD)]
    reached = {True: "yes", False: "no", None: ""}
    for line in (line for line in result_lines if "what" in line):
        cells = [*(str(line[key]) for key in HEAD[:-1]), reached[line["reached"]]]
        text.append(f"| {' | '.join(cells)} |")
    failed = [line for line in result_lines if line.get("status", "done") != "done"]
    text += ["", *(f"- {line['row']}: {line['status']}: {line['error']}" for line in failed)]
    text += ["", *dict.fromkeys(line["machine"] for line in result_lines)]
    return "\n".join(text) + "\n"
