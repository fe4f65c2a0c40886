"""Write captions of many pairs, in one process or several. A stopped run can be resumed.

The output is JSON Lines: one line per pair, in the order of the input. The line of a pair that cannot
be captioned has an `error` instead of a `caption`. If a caption is withheld, its line has `"caption":
null` and a `reason`.

During the run, the lines are in files of a scratch folder. Such a file is called a shard, and only
complete shards are written. When all shards exist, they are joined to the output.

Each line names what it was made of: the hashes of both image files, and, under the key `by`, the weights and
settings. A line is kept only if the files, weights and settings are still the same.
"""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from PIL.Image import Image

from pipeline.captioning.feature_backbone import opened, rotation_warning
from pipeline.captioning.pair_captioner import ALL, Limits, PairCaptioner, Search, Squashed
from pipeline.captioning.pair_jobs import Job
from pipeline.datasets.images import read_bytes
from pipeline.io import source_code
from pipeline.io.errors import InputError, printable, writing
from pipeline.io.inputs import read_text
from pipeline.io.outputs import replacing, write_text
from pipeline.io.prefetch import prefetch
from pipeline.io.progress import track
from pipeline.io.provenance import sha256
from pipeline.io.scratch_folders import begin, clear, scratch

BATCH = 16  # pairs: 32 images, as in extraction
SHARD = 16 * BATCH  # pairs per shard; whole batches, so that the results do not depend on the parts
OWN_FILE = "pipeline/captioning/many_pairs.py"
REMEDY = "name another --out, or move the file away"
Hashes = dict[str, str | None]
"""SHA-256 of each image file of a pair: before_sha256, after_sha256. None: the file cannot be read."""


def caption(
    captioner: PairCaptioner,
    pairs: Sequence[Job],
    out: Path,
    search: Search,
    top: int | None = None,
    limits: Limits = ALL,
    part: tuple[int, int] = (0, 1),
) -> bool:
    """Write the captions of one part of the pairs, as shards. The part that finishes last writes `out`.

    A shard is a file with the captions of up to SHARD consecutive pairs. When all shards exist, they
    are joined to `out`. Several processes can share the work: each writes the shards of one part.

    search: settings of the search for captions
    top: number of best captions to add to each line that has a caption; None: only the caption
    limits: conditions under which a pair gets a caption; otherwise, its line has the reason
    part: (i, n): this call writes part i of n, which has the shards i, i + n, i + 2n, … (i from 0)

    Returns True if `out` is complete. Raises InputError if `out` exists, but was written for other
    pairs, image files, weights or settings.
    """
    by = _origin_of(captioner, search, top, limits)
    if out.exists():
        if number := _first_other_line(out, pairs, by):
            raise InputError(
                f"{out}, line {number} is not of these pairs, image files, weights and settings; {REMEDY}"
            )
        return True
    code = json.dumps(source_code.of_module(source_code.ROOT / OWN_FILE))
    folder = scratch(out, sha256(by, code, *map(_key, pairs))[:16])
    shards = {
        folder / f"{start}.jsonl": pairs[start : start + SHARD] for start in range(0, len(pairs), SHARD)
    }
    _remove_outdated(shards, by)
    todo = {shard: shards[shard] for shard in [*shards][part[0] :: part[1]] if not shard.exists()}
    with writing(out):
        begin(folder)
    entries = partial(_entries, captioner, search=search, top=top, limits=limits)
    work = _write_shards(captioner, todo, by, entries)
    for _ in track(work, "captioning", "pairs", sum(map(len, todo.values()))):
        pass
    try:
        lines = b"".join(shard.read_bytes() for shard in shards)
    except FileNotFoundError:  # another part is unfinished, or has written `out` meanwhile
        return out.exists()
    with replacing(out) as temporary_path:
        temporary_path.write_bytes(lines)
    with suppress(FileNotFoundError):  # another part removes the same folders
        clear(out)
    return True


def errors_in(out: Path) -> int:
    """Return how many lines of the complete output `out` have an error."""
    with out.open(encoding="utf-8") as file:
        return sum("error" in json.loads(line) for line in file)


def _origin_of(captioner: PairCaptioner, search: Search, top: int | None, limits: Limits) -> str:
    """Return the text that ends each output line, such as "tabletop card seed 1, weights ..., beam 3"."""
    recipe, calibration = captioner.trained.recipe, captioner.calibration
    limited = f", at least {limits.at_least:g}" + ", any images" * limits.any_images
    confidence = f", confidence {sha256(calibration.model_dump_json())[:12]}{limited}" if calibration else ""
    return (
        f"{recipe.dataset} {recipe.model} seed {captioner.trained.seed}, weights {captioner.identity}, "
        f"whole model {captioner.whole_identity}, features {captioner.source.weights_id} "
        f"{captioner.source.precision}, beam {search.beam}, length penalty {search.length_penalty:g}"
        + (f", top {top}" if top else "")
        + confidence
    )


def _first_other_line(path: Path, pairs: Sequence[Job], by: str) -> int | None:
    """Return the number of the first line that was not made from its pair and from `by`, or None.

    The file must have one line per pair, in the order of `pairs`. Each line must begin with the names of the
    pair and the hashes of its image files as they are now. It must end with an entry "by" whose value is
    `by`, a text that describes the weights and settings.
    """
    lines = read_text(path, REMEDY).removesuffix("\n").split("\n")
    end = json.dumps({"by": by}, ensure_ascii=False)[1:]
    starts = prefetch(_start_of_line, pairs, os.cpu_count() or 1, 2 * BATCH)
    for number, (line, start) in enumerate(zip_longest(lines, starts), 1):
        if not line or not start or not (line.startswith(start) and line.endswith(end)):
            return number
    return None


def _start_of_line(job: Job) -> str:
    hashes = _hashes([] if job.fault else [_content(file) for file in job.files])
    return json.dumps(_names(job) | hashes, ensure_ascii=False)[:-1]


def _remove_outdated(shards: Mapping[Path, Sequence[Job]], by: str) -> None:
    """Remove the complete shards that were made from other image files, also shards of other parts.

    shards: file of a shard -> its pairs. The number of pairs in removed shards is printed.
    """
    outdated = {
        shard: pairs
        for shard, pairs in shards.items()
        if shard.exists() and _first_other_line(shard, pairs, by)
    }
    for shard in outdated:
        shard.unlink(missing_ok=True)  # another part may remove it at the same time
    if outdated:
        count = sum(map(len, outdated.values()))
        print(f"image files were changed: {count} finished pairs are captioned again", file=sys.stderr)


def _write_shards(
    captioner: PairCaptioner,
    shards: Mapping[Path, Sequence[Job]],
    by: str,
    entries: Callable[[Sequence[Squashed]], list[dict[str, Any]]],
) -> Iterator[None]:
    """Caption the pairs of each shard, and write the shard's file. Yield once after each pair.

    shards: file to write -> its pairs. Each line of a file is the answer for a pair, a JSON object.
    by: text that describes the weights and settings; each JSON object ends with the entry "by": `by`
    entries: function that returns the answers for a list of pairs of resized images

    The caller uses the yields to show the progress. If pairs had warnings, their number and one of the
    warnings are printed to standard error at the end.
    """
    warnings: list[str] = []
    load = partial(_load, captioner, warnings=warnings)
    for shard, pairs in shards.items():
        lines = []
        loaded = prefetch(load, pairs, os.cpu_count() or 1, 2 * BATCH)
        for start in range(0, len(pairs), BATCH):
            batch = [(job, next(loaded)) for job in pairs[start : start + BATCH]]
            images = [item for _, (_, item) in batch if not isinstance(item, str)]
            answers = iter(entries(images) if images else [])
            for job, (hashes, item) in batch:
                answer = {"error": item} if isinstance(item, str) else next(answers)
                line = _names(job) | hashes | answer | {"by": by}
                lines.append(json.dumps(line, ensure_ascii=False) + "\n")
                yield
        write_text(shard, "".join(lines))
    if warnings:
        print(printable(f"warning: {len(warnings)} pair(s), one of them {warnings[0]}"), file=sys.stderr)


def _load(captioner: PairCaptioner, job: Job, warnings: list[str]) -> tuple[Hashes, Squashed | str]:
    """Return the hashes of a pair's files, and its resized images; if they cannot be read, an error message.

    If the EXIF orientations of the two images differ, a message is appended to `warnings`.
    """
    if job.fault:
        return _hashes([]), job.fault
    contents = [_content(file) for file in job.files]
    hashes = _hashes(contents)
    try:
        before, after = (_opened(*item) for item in zip(contents, job.files, strict=True))
    except InputError as error:
        return hashes, printable(str(error))
    if warning := rotation_warning(before, after):
        warnings.append(f"{job.pair_id}: {warning}")
    return hashes, (captioner.features.squashed(before), captioner.features.squashed(after))


def _opened(content: bytes | InputError, file: Path) -> Image:
    if isinstance(content, InputError):
        raise content
    return opened(content, str(file))


def _content(file: Path) -> bytes | InputError:
    """Return a file's bytes, or the error that says why it cannot be read."""
    try:
        return read_bytes(file)
    except InputError as error:
        return error


def _hashes(contents: Sequence[bytes | InputError]) -> Hashes:
    """Return the hashes of a pair's files; `contents` is empty for a pair with a fault, which is not read."""
    values = [None if isinstance(data, InputError) else hashlib.sha256(data).hexdigest() for data in contents]
    return dict(zip(("before_sha256", "after_sha256"), values or (None, None), strict=True))


def _key(job: Job) -> str:
    return json.dumps([*_names(job).values(), job.fault])


def _names(job: Job) -> dict[str, str | None]:
    return {"pair_id": job.pair_id, "before": job.before, "after": job.after}


def _entries(
    captioner: PairCaptioner, pairs: Sequence[Squashed], search: Search, top: int | None, limits: Limits
) -> list[dict[str, Any]]:
    """Return a JSON object for each pair of resized images: `caption`, and `probability` if it is known.

    If `limits` withholds a caption, `caption` is null and `reason` says why. If `top` is a number, each
    object with a caption also has the key `top`: the `top` best captions, with their log-probabilities.
    """
    answers = [entry.record for entry in captioner.answers(pairs, search, limits)]
    if top is None:
        return answers
    for answer, ranked in zip(answers, captioner.ranked_of_squashed(pairs, top, search), strict=True):
        if answer["caption"] is not None:
            best = [(entry.caption, round(entry.log_probability, 4)) for entry in ranked]
            answer["top"] = [{"caption": text, "log_probability": value} for text, value in best]
    return answers
