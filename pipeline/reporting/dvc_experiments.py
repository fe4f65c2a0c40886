"""Collect the experiments of `dvc exp run` in a small file, and read that file."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import FiniteFloat

from pipeline.io.errors import InputError
from pipeline.io.records import read_record

FILE = Path("results/experiments/gathered.json")
REMEDY = "run `python -m commands.experiments` to make it again, or remove it"
PARAMS = "params.yaml"
LISTS = ("datasets", "models", "seeds")  # these select runs and do not change them
Value = str | int | float | bool | None | list[Any]


@dataclass(frozen=True)
class Experiment:
    """Results of a commit, or of an experiment that is based on a commit."""

    name: str
    params: dict[str, Value]  # parameters that differ between experiments
    metrics: dict[str, dict[str, FiniteFloat]]  # "dataset/model/seed" -> metric of all pairs -> value


def gather(shown: Any) -> list[Experiment]:
    """Return the finished experiments from the output of `dvc exp show --json` (DVC 3).

    Queued, running and failed experiments are left out. The workspace is also left out, because it may be
    between two experiments. Raises InputError if `shown` has another format.
    """
    try:
        finished = {state["rev"]: state for state in _finished(shown)}.values()
        flat = [_flat(state["data"]["params"][PARAMS]["data"]) for state in finished]
        metrics = [_metrics(state["data"]["metrics"]) for state in finished]
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"`dvc exp show --json` printed no list of experiments ({error!r}); run it to see what is wrong"
        ) from None
    differing = _differing(flat)
    found = [
        Experiment(state["name"] or state["rev"][:7], {key: own.get(key) for key in differing}, scores)
        for state, own, scores in zip(finished, flat, metrics, strict=True)
        if scores
    ]
    return sorted(found, key=lambda one: (json.dumps(one.params, sort_keys=True), one.name))


def _finished(shown: Any) -> Iterator[dict[str, Any]]:
    """Yield the results of each commit, and the newest results of each experiment."""
    for commit in shown:
        if commit["rev"] != "workspace" and not commit["error"]:
            yield commit
        for experiment in commit["experiments"] or []:
            state = experiment["revs"][0]
            if not state["error"] and (experiment["executor"] or {}).get("state") in (None, "success"):
                yield state


def _flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Value]:
    found: dict[str, Value] = {}
    for key, value in tree.items():
        found |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


def _differing(flat: Iterable[dict[str, Value]]) -> list[str]:
    seen: dict[str, set[str]] = {}
    for own in flat:
        for key, value in own.items():
            seen.setdefault(key, set()).add(json.dumps(value, sort_keys=True))
    return sorted(key for key, values in seen.items() if len(values) > 1 and key not in LISTS)


def _metrics(files: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Return "dataset/model/seed" -> scores over all pairs, from the summary.json of each run."""
    found = {}
    for name, file in sorted(files.items()):
        *_, dataset, model, seed, _ = ("", "", "", *Path(name).parts)
        if seed.isdecimal() and (values := file.get("data", {})):
            numbers = {key: value for key, value in sorted(values.items()) if type(value) in (int, float)}
            found[f"{dataset}/{model}/{seed}"] = numbers
    return found


def records(experiments: Iterable[Experiment]) -> list[dict[str, Any]]:
    """Return the experiments in the format of FILE."""
    return [asdict(experiment) for experiment in experiments]


def read(path: Path) -> list[Experiment]:
    """Read the collected experiments; the list is empty without a file.

    Raises InputError for a damaged file.
    """
    return read_record(path, list[Experiment], REMEDY) if path.exists() else []
