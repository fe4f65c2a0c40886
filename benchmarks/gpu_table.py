"""The lines of `python -m benchmarks gpu` as a Markdown table."""

from collections.abc import Sequence
from typing import Any

HEAD = ("row", "what", "ours", "reference", "ratio", "goal", "reached")


def markdown(lines: Sequence[dict[str, Any]]) -> str:
    """What was found, row by row; of a row that was run again, the last time. Below it what failed."""
    text = [f"| {' | '.join(HEAD)} |", "|" + "---|" * len(HEAD)]
    found = _last(lines)
    text += [f"| {' | '.join(_cells(line))} |" for line in found if "what" in line]
    failed = [line for line in found if line.get("status", "done") != "done"]
    text += ["", *(f"- {line['row']}: {line['status']}: {line['error']}" for line in failed)]
    if machine := next((line for line in found if "device" in line), None):
        versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items() if number)
        cores, python = machine["cores"], machine["python"]
        text += ["", f"{machine['device']}; {cores} cores; Python {python}, {versions}"]
    return "\n".join(text) + "\n"


def _last(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each row the lines of its last run; that it has begun stands there only until it has ended."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        known = runs.setdefault(line["row"], [])
        if line.get("status") == "begun":
            known.clear()
        elif "status" in line:
            known[:] = [other for other in known if "status" not in other]
        known.append(line)
    return [line for own in runs.values() for line in own]


def _cells(line: dict[str, Any]) -> list[str]:
    reached = {True: "yes", False: "no", None: ""}[line["reached"]]
    return [line["row"], *(str(line[key]) for key in HEAD[1:-1]), reached]
