"""tabletop at the papers' size on one GPU, without DVC: rendered, extracted, trained and decoded.

    python -m benchmarks gpu_study --minutes 9 --out DIR [--small] [--scenes N] [--iterations N] …

DIR becomes a workspace of its own, with a params.yaml; the stages are those of dvc.yaml, by its own commands,
one after the other: the dataset, then subtraction, rr, scorer_cbr and dirl_ccr (512 wide, batches of 128) of
the first seed, of the second, and so on until the minutes are over. The number of scenes is what can be
rendered in a part of the minutes. Called again with the same DIR it goes on where it was ended, within a
stage, too. What is worth keeping of it lies in DIR/study.zip: captions, curves, pairs, recipes, times.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks import gpu_machine
from pipeline.params import read_tree

ROOT = Path(__file__).resolve().parent.parent
MODELS = ("subtraction", "rr", "scorer_cbr", "dirl_ccr")
DATASET = "tabletop"
RENDERING = 0.45  # of the minutes
MOST_SCENES, PROBED = 20_000, 8  # scenes; those of the probe, a core
BATCH, RATE = 128, 2.0e-4  # SCORER section 4.3, on the CLEVR datasets
KEPT = (
    "params.yaml",
    "stages.jsonl",
    "data/pairs/*",
    "data/vocab/*",
    "data/recipes/**/*.yaml",
    "data/weights/**/model.yaml",
    "results/cells/**/captions.json",
    "results/curves/**/*.csv",
    "results/provenance/**/*.json",
)
PLACEHOLDER = re.compile(r"\$\{item\.(\w+)\}")


@dataclass(frozen=True)
class Step:
    """A stage of dvc.yaml for one cell."""

    stage: str
    item: dict[str, str]  # dataset, model, seed

    @property
    def name(self) -> str:
        return f"{self.stage}@{'-'.join(self.item.values())}"

    def of(self, entry: dict[str, Any]) -> tuple[list[str], list[Path]]:
        """The words of its command, and what it leaves, of its entry in dvc.yaml."""
        filled = [
            PLACEHOLDER.sub(lambda found: self.item[found[1]], x) for x in (entry["cmd"], *entry["outs"])
        ]
        words = filled[0].split()
        assert words[0] == "python"
        return [sys.executable, *words[1:]], [Path(out) for out in filled[1:]]


def main() -> None:
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the running stage is ended, too
    deadline = time.monotonic() + 60 * arguments.minutes
    out: Path = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    if not (out / "params.yaml").exists():
        scenes = arguments.scenes or _affordable(out, arguments, stages["render"])
        _write(out / "params.yaml", yaml.safe_dump(parameters(arguments, scenes), sort_keys=False))
    try:
        for step in steps(arguments.seeds):
            code = _run(out, step, stages[step.stage], deadline)
            if code is None or (code and "model" not in step.item):  # else: the next model
                break
    finally:
        pack(out)
    print(f"kept: {out / 'study.zip'}, {(out / 'study.zip').stat().st_size / 2**20:.1f} MiB")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks gpu_study", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--minutes", type=float, required=True, help="of this call")
    parser.add_argument("--out", type=Path, required=True, help="the workspace")
    parser.add_argument("--small", action="store_true", help="sizes for two cores, to try the command")
    parser.add_argument("--scenes", type=int, help="(default: as many as the minutes allow)")
    parser.add_argument("--iterations", type=int, help="of a training (default: 2500; small: 12)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="in turn (default: 1 2 3)")
    parser.add_argument("--compile", choices=("auto", "off"), default="off", help="train.compile")
    return parser.parse_args()


def parameters(arguments: argparse.Namespace, scenes: int) -> dict[str, Any]:
    """params.yaml of the repository at the papers' size, or small."""
    tree: dict[str, Any] = read_tree(ROOT / "params.yaml")
    own, small = tree["dataset"][DATASET], arguments.small
    iterations = arguments.iterations or (12 if small else 2500)
    tree |= {"datasets": [DATASET], "models": list(MODELS), "seeds": arguments.seeds}
    tree["tabletop"]["scenes"] = scenes
    tree["train"]["compile"] = arguments.compile
    own["train"] |= {"iterations": iterations, "validate_every": max(1, iterations // (3 if small else 10))}
    if small:
        tree["features"]["size"] = 64
        own["train"]["batch"], own["sizes"]["width"] = 4, 16
    else:
        own["sizes"] = tree["dataset"]["clevr_change"]["sizes"]
        own["train"] |= {"batch": BATCH, "learning_rate": RATE, "cache": "device"}
    return tree


def _affordable(out: Path, arguments: argparse.Namespace, entry: dict[str, Any]) -> int:
    """How many scenes the minutes allow, by the time of a few."""
    cores = len(os.sched_getaffinity(0))
    if arguments.small:
        return 50
    probe = out / "probe"
    probe.mkdir(exist_ok=True)
    _write(probe / "params.yaml", yaml.safe_dump(parameters(arguments, PROBED * cores), sort_keys=False))
    start = time.monotonic()
    command, _ = Step("render", {"dataset": DATASET}).of(entry)
    subprocess.run(command, cwd=probe, env=_environment(), check=True)
    rate = PROBED * cores / (time.monotonic() - start)  # its start counts: too few rather than too many
    shutil.rmtree(probe)
    scenes = int(min(MOST_SCENES, RENDERING * 60 * arguments.minutes * rate) // 10 * 10)
    print(f"{rate:.1f} scenes/s rendered: {scenes} scenes", flush=True)
    return max(scenes, 10 * BATCH)  # 80 % of them are trained on


def steps(seeds: list[int]) -> Iterator[Step]:
    """The stages in order: the dataset once, then every model of a seed before the next seed."""
    for stage in ("render", "prepare"):
        yield Step(stage, {"dataset": DATASET})
    yield Step("extract", {"dataset": DATASET, "input": "grid"})
    yield Step("vocab", {"dataset": DATASET})
    for model in MODELS:
        yield Step("recipe", {"dataset": DATASET, "model": model})
    for seed in seeds:
        for model in MODELS:
            for stage in ("train", "decode"):
                yield Step(stage, {"dataset": DATASET, "model": model, "seed": str(seed)})


def _run(out: Path, step: Step, entry: dict[str, Any], deadline: float) -> int | None:
    """The exit code, 0 where the work is done already; None: ended at the deadline, to go on later."""
    command, outs = step.of(entry)
    if step.stage == "train":
        command += ["--tokens", "plain"]  # no Java is there; tabletop's sentences are the same
    if all((out / path).exists() for path in outs):
        return 0
    if (start := time.monotonic()) > deadline:
        return None
    print(f"── {step.name} ──", flush=True)
    # a stage listens to SIGTERM and ends its own processes
    process = subprocess.Popen(command, cwd=out, env=_environment(), process_group=0)
    try:
        code: int | None = process.wait(deadline - start)
    except subprocess.TimeoutExpired:
        code = None
    finally:
        _end(process)
    said = {0: "done", None: "ended for want of time"}.get(code, f"failed with exit code {code}")
    line = {"stage": step.name, "status": said, "seconds": round(time.monotonic() - start, 1)}
    with (out / "stages.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(line | gpu_machine.facts() | gpu_machine.now()) + "\n")
    print(f"{step.name}: {said}, {line['seconds']} s", flush=True)
    return code


def _end(process: subprocess.Popen[bytes]) -> None:
    """With five seconds to leave by itself."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _environment() -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return os.environ | {"PYTHONPATH": path}


def pack(out: Path) -> None:
    """What scoring and reading need, in one file, which is replaced when it is whole."""
    files = sorted(file for pattern in KEPT for file in out.glob(pattern) if file.is_file())
    beside = out / "study.zip.partial"
    with zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in files:
            packed.write(file, file.relative_to(out))
    beside.replace(out / "study.zip")


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
