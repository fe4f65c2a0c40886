"""Write captions of many pairs. A stopped run can be resumed.

The output is JSON Lines: one line per pair, in the order of the input. Lines are appended and never
rewritten. A stopped run resumes after the last complete line. The line of a pair that cannot be captioned has
an `error` instead of a `caption`. If a caption is withheld, its line has `"caption": null` and a `reason`.
"""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.captioning.answers import ALL, Limits
from pipeline.captioning.features import opened, turned
from pipeline.captioning.pair_jobs import Job
from pipeline.captioning.picture_captioner import PictureCaptioner, Search
from pipeline.datasets.checking import on_disk
from pipeline.io.errors import InputError, printable, writing
from pipeline.io.outputs import replacing, write_text
from pipeline.io.prefetch import prefetch
from pipeline.io.progress import track
from pipeline.io.provenance import sha256
from pipeline.io.scratch_folders import alone, begin, finish, scratch

BATCH = 16  # pairs: 32 images, as in extraction
SHARD = 16 * BATCH  # pairs per shard; whole batches, so that the results equal those of a single run
REMEDY = "name another --out, or move the file away"
Images = tuple[np.ndarray, np.ndarray]


def caption(
    captioner: PictureCaptioner,
    pairs: Sequence[Job],
    out: Path,
    search: Search,
    top: int | None = None,
    limits: Limits = ALL,
) -> int:
    """Append the missing lines to `out`. Return how many of all lines have an error.

    Raises InputError if `out` has lines of other pairs, weights or settings, if another process appends to
    `out`, or if `out` cannot be written.
    """
    by = _described(captioner, search, top, limits)
    with alone(out), writing(out):
        failed = _done(out, pairs, by)
        with out.open("a", encoding="utf-8") as file:
            found = _records(captioner, pairs[len(failed) :], search, top, limits)
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
    limits: Limits = ALL,
) -> bool:
    """Write the captions of one part of the pairs, so that several processes can share the work.

    Part i of n writes the shards i, i + n, …; `part` is (i, n), and i counts from 0. A shard is SHARD pairs
    in a file of its own, which is complete or absent. The part that finishes last joins all shards to `out`.
    Returns True if `out` is complete. Raises InputError if `out` comes from a run without parts, or from
    other pairs, weights or settings.
    """
    by = _described(captioner, search, top, limits)
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
            found = _records(captioner, own, search, top, limits)
            write_text(shards[number], "".join(_line(record, by) for record in found))
            print(f"captioning: shard {number + 1} of {len(shards)}", file=sys.stderr, flush=True)
    with alone(out, wait=True):
        if not all(shard.exists() for shard in shards):
            return out.exists()
        with replacing(out) as beside, beside.open("wb") as file:
            for shard in shards:
                file.write(shard.read_bytes())
        finish(folder)
    return True


def _whole(out: Path, pairs: Sequence[Job], by: str) -> bool:
    """Return True if `out` is complete because another part has joined the shards.

    Raises InputError if `out` is the unfinished output of a run without parts.
    """
    with alone(out, wait=True):
        if out.exists() and len(_done(out, pairs, by)) < len(pairs):
            raise InputError(f"{out} is the unfinished output of a run without parts; {REMEDY}")
        return out.exists()


def errors_in(out: Path) -> int:
    """Return how many pairs of a complete output have an error."""
    with out.open(encoding="utf-8") as file:
        return sum("error" in json.loads(line) for line in file)


def _line(record: dict[str, Any], by: str) -> str:
    return json.dumps(record | {"by": by}, ensure_ascii=False) + "\n"


def _described(captioner: PictureCaptioner, search: Search, top: int | None, limits: Limits) -> str:
    """Return a text that describes a run: weights, features, search, confidence.

    A stopped run is resumed only if its text is equal to the new run's text.
    """
    recipe, own = captioner.trained.recipe, captioner.calibration
    limited = f", at least {limits.at_least:g}" + ", any images" * limits.any_images
    confidence = f", confidence {sha256(own.model_dump_json())[:12]}{limited}" if own else ""
    return (
        f"{recipe.dataset} {recipe.model} seed {captioner.trained.seed}, weights {captioner.identity}, "
        f"features {captioner.made.weights_id} {captioner.made.precision}, beam {search.beam}, "
        f"length penalty {search.length_penalty:g}" + (f", top {top}" if top else "") + confidence
    )


def _done(out: Path, pairs: Sequence[Job], by: str) -> list[bool]:
    """Check the existing lines of `out`. Return a bool per line: True if the line has an error.

    A killed run may leave an incomplete last line; it is cut off. Raises InputError if a line, complete or
    not, belongs to another run.
    """
    if not out.exists():
        return []
    *lines, half = out.read_bytes().split(b"\n")
    failed = [_checked(line, f"{out}, line {n}", pairs, n - 1, by) for n, line in enumerate(lines, 1)]
    if half:
        todo = pairs[len(lines) :]
        start = (json.dumps(_names(todo[0]), ensure_ascii=False)[:-1] if todo else "").encode()
        if not todo or not start.startswith(half[: len(start)]):
            raise InputError(f"{out}, line {len(lines) + 1} is no caption of a pair; {REMEDY}")
        os.truncate(out, out.stat().st_size - len(half))
    return failed


def _checked(line: bytes, where: str, pairs: Sequence[Job], place: int, by: str) -> bool:
    """Return True if the line has an error. Raises InputError if it belongs to another run."""
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
            raise InputError(f"{where} has {found!r}, but this run expects {wanted!r}; {REMEDY}")
    return "error" in record


def _records(
    captioner: PictureCaptioner, pairs: Sequence[Job], search: Search, top: int | None, limits: Limits
) -> Iterator[dict[str, Any]]:
    """Caption pairs, and yield one record per pair, in order. Threads read images in advance.

    At the end, the number of pairs with a warning is printed, with the first warning.
    """
    warnings: list[str] = []

    def load(job: Job) -> Images | str:
        return _load(captioner, job, warnings)

    loaded = prefetch(load, pairs, os.cpu_count() or 1, 2 * BATCH)
    for start in range(0, len(pairs), BATCH):
        part = [(job, next(loaded)) for job in pairs[start : start + BATCH]]
        images = [each for _, each in part if not isinstance(each, str)]
        said = iter(_said(captioner, images, search, top, limits) if images else [])
        for job, each in part:
            yield _names(job) | ({"error": each} if isinstance(each, str) else next(said))
    if warnings:
        print(printable(f"warning: {len(warnings)} pair(s), one of them {warnings[0]}"), file=sys.stderr)


def _load(captioner: PictureCaptioner, job: Job, warnings: list[str]) -> Images | str:
    """Return a pair's images, resized to a square, or an error message.

    Appends to `warnings` if the two images have different orientations.
    """
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
    """Return the first entries of a pair's line: its id and its images."""
    return {"pair_id": job.pair_id, "before": job.before, "after": job.after}


def _said(
    captioner: PictureCaptioner, pairs: Sequence[Images], search: Search, top: int | None, limits: Limits
) -> list[dict[str, Any]]:
    """Caption pairs. Return, for each pair, the entries of its line that come from the model.

    They are the entries of the answer. If `top` is not None, the entry "top" has the `top` best captions.
    """
    answers = [each.record for each in captioner.answers(pairs, search, limits)]
    if top is None:
        return answers
    ranked = captioner.ranked_of_squashed(pairs, top, search)
    best = [
        [{"caption": c.caption, "log_probability": round(c.log_probability, 4)} for c in own]
        for own in ranked
    ]
    each = zip(answers, best, strict=True)
    return [answer if answer["caption"] is None else answer | {"top": own} for answer, own in each]
