"""Captions of many pairs: pictures are read ahead, and what is written stays written.

The output is JSON Lines, a line a pair in the table's order, appended and never rewritten: a run that was
stopped goes on behind the last whole line. A pair that cannot be captioned has an `error` in place of its
`caption`.
"""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.captioning.features import opened, turned
from pipeline.captioning.pair_jobs import Job
from pipeline.captioning.picture_captioner import PictureCaptioner, Search
from pipeline.datasets.checking import on_disk
from pipeline.io.errors import InputError, printable, writing
from pipeline.io.outputs import replacing, write_text
from pipeline.io.prefetch import prefetch
from pipeline.io.progress import track
from pipeline.io.provenance import sha256
from pipeline.io.scratch_folders import alone, begin, finish, in_turn, scratch

BATCH = 16  # pairs: 32 pictures, as extraction has them
SHARD = (
    16 * BATCH
)  # pairs that a part captions before it marks them as done: whole batches, as one run has them
REMEDY = "name another --out, or move the file away"
Images = tuple[np.ndarray, np.ndarray]


def caption(
    captioner: PictureCaptioner, pairs: Sequence[Job], out: Path, search: Search, top: int | None = None
) -> int:
    """Append the lines that `out` lacks; returns how many pairs of all have an error.

    Raises InputError where `out` holds the lines of other pairs, weights or settings, where another process
    appends to it, and where it cannot be written.
    """
    by = _described(captioner, search, top)
    with alone(out), writing(out):
        failed = _done(out, pairs, by)
        with out.open("a", encoding="utf-8") as file:
            found = _records(captioner, pairs[len(failed) :], search, top)
            for record in track(found, "captioning", "pairs", len(pairs), len(failed)):
                file.write(_line(record, by))
                file.flush()
                failed.append("error" in record)
    return sum(failed)


def caption_part(
    captioner: PictureCaptioner,
    pairs: Sequence[Job],
    out: Path,
    search: Search,
    top: int | None,
    part: tuple[int, int],
) -> bool:
    """Caption the shards of one part of several; the one that finds all there joins them, in order.

    A shard's file is whole or absent. Returns whether `out` is whole. Raises InputError where it is of a run
    without parts, or of other pairs, weights or settings.
    """
    by = _described(captioner, search, top)
    if _whole(out, pairs, by):
        return True
    folder = scratch(out, sha256(by, repr(pairs))[:16])
    shards = [folder / f"{start}.jsonl" for start in range(0, len(pairs), SHARD)]
    index, count = part
    with writing(out):
        begin(folder)
    for number in range(index, len(shards), count):
        if not shards[number].exists():
            own = pairs[number * SHARD : (number + 1) * SHARD]
            found = _records(captioner, own, search, top)
            write_text(shards[number], "".join(_line(record, by) for record in found))
            print(f"captioning: shard {number + 1} of {len(shards)}", file=sys.stderr, flush=True)
    with in_turn(out):
        if not all(shard.exists() for shard in shards):
            return out.exists()
        with alone(out), replacing(out) as beside, beside.open("wb") as file:
            for shard in shards:
                file.write(shard.read_bytes())
        finish(folder)
    return True


def _whole(out: Path, pairs: Sequence[Job], by: str) -> bool:
    """Whether another part has put all together. Raises InputError where a run without parts is at work."""
    with in_turn(out), alone(out):
        if out.exists() and len(_done(out, pairs, by)) < len(pairs):
            raise InputError(f"{out} is half of a run without parts; {REMEDY}")
        return out.exists()


def errors_in(out: Path) -> int:
    """How many pairs of a whole file have an error."""
    with out.open(encoding="utf-8") as file:
        return sum("error" in json.loads(line) for line in file)


def _line(record: dict[str, Any], by: str) -> str:
    return json.dumps(record | {"by": by}, ensure_ascii=False) + "\n"


def _described(captioner: PictureCaptioner, search: Search, top: int | None) -> str:
    """What wrote a line: a run goes on only with the same."""
    recipe = captioner.trained.recipe
    return (
        f"{recipe.dataset} {recipe.model} seed {captioner.trained.seed}, weights {captioner.identity}, "
        f"features {captioner.made.weights_id} {captioner.made.precision}, beam {search.beam}, "
        f"length penalty {search.length_penalty:g}" + (f", top {top}" if top else "")
    )


def _done(out: Path, pairs: Sequence[Job], by: str) -> list[bool]:
    """For each line that is there, whether it holds an error; half a line, of a kill, is cut off.

    It may end within a letter. Raises InputError where it is not half of this run's next line.
    """
    if not out.exists():
        return []
    *lines, half = out.read_bytes().split(b"\n")
    failed = [_checked(line, f"{out}, line {n}", pairs, n - 1, by) for n, line in enumerate(lines, 1)]
    if half:
        _check_half(half, f"{out}, line {len(lines) + 1}", pairs[len(lines) :])
        os.truncate(out, out.stat().st_size - len(half))
    return failed


def _check_half(half: bytes, where: str, todo: Sequence[Job]) -> None:
    """The beginning of a line may be cut off: it must be that of the next pair's."""
    start = (json.dumps(_names(todo[0]), ensure_ascii=False)[:-1] if todo else "").encode()
    if not todo or not start.startswith(half[: len(start)]):
        raise InputError(f"{where} is no caption of a pair; {REMEDY}")


def _checked(line: bytes, where: str, pairs: Sequence[Job], place: int, by: str) -> bool:
    """Whether a line that was written before holds an error; it must be of this run."""
    try:
        record = json.loads(line.decode())
        own = [record[key] for key in ("pair_id", "before", "after", "by")]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{where} is no caption of a pair; {REMEDY}") from None
    if place >= len(pairs):
        raise InputError(f"{where}: there are only {len(pairs)} pairs; {REMEDY}")
    job = pairs[place]
    for found, wanted in zip(own, (job.pair_id, job.before, job.after, by), strict=True):
        if found != wanted:
            raise InputError(f"{where} is of {found!r}, and this run's is of {wanted!r}; {REMEDY}")
    return "error" in record


def _records(
    captioner: PictureCaptioner, pairs: Sequence[Job], search: Search, top: int | None
) -> Iterator[dict[str, Any]]:
    """A record a pair, in order. Pictures are read by threads while others are captioned.

    Says at the end how many pairs have a warning, and the first one's.
    """
    warnings: list[str] = []

    def load(job: Job) -> Images | str:
        return _load(captioner, job, warnings)

    loaded = prefetch(load, pairs, os.cpu_count() or 1, 2 * BATCH)
    for start in range(0, len(pairs), BATCH):
        part = [(job, next(loaded)) for job in pairs[start : start + BATCH]]
        images = [each for _, each in part if not isinstance(each, str)]
        said = iter(_said(captioner, images, search, top) if images else [])
        for job, each in part:
            yield _names(job) | ({"error": each} if isinstance(each, str) else next(said))
    if warnings:
        print(printable(f"warning: {len(warnings)} pair(s), one of them {warnings[0]}"), file=sys.stderr)


def _load(captioner: PictureCaptioner, job: Job, warnings: list[str]) -> Images | str:
    """Return a pair's squashed pictures, or what is wrong with it. Warnings are added to the list."""
    if job.fault:
        return job.fault
    pictures = []
    for name in (job.before, job.after):
        try:
            pictures.append(opened(job.root / on_disk(job.root, name)))
        except InputError as error:
            return printable(str(error))
    before, after = pictures
    if warning := turned(before, after):
        warnings.append(f"{job.pair_id}: {warning}")
    return captioner.features.squashed(before), captioner.features.squashed(after)


def _names(job: Job) -> dict[str, str]:
    """What a line begins with."""
    return {"pair_id": job.pair_id, "before": job.before, "after": job.after}


def _said(
    captioner: PictureCaptioner, pairs: Sequence[Images], search: Search, top: int | None
) -> list[dict[str, Any]]:
    """What a line holds of each pair."""
    if top is None:
        return [{"caption": each.caption} for each in captioner.of_squashed(pairs, search)]
    ranked = captioner.ranked_of_squashed(pairs, top, search)
    best = [
        [{"caption": c.caption, "log_probability": round(c.log_probability, 4)} for c in own]
        for own in ranked
    ]
    return [{"caption": own[0]["caption"], "top": own} for own in best]
