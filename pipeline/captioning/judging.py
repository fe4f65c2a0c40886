"""Judge the captions of pairs with known scenes: rendered scenes, or real images labelled by hand."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from pipeline.captioning.features import Picture
from pipeline.captioning.picture_captioner import PictureCaptioner, Search
from pipeline.datasets import labelled_scenes
from pipeline.datasets.schema import NO_CHANGE, Pair
from pipeline.io.progress import track
from pipeline.scoring.truth import FAULTS, Verdict, judge
from pipeline.statistics.bootstrap import share

BATCH = 20  # pairs captioned at once
JudgedCaption = tuple[str, Pair, str, Verdict]  # kind of change, the pair, the caption, its verdict
Shown = tuple[str, Pair, Picture, Picture]  # kind of change, the pair, its before and after images


def judge_captions(
    captioner: PictureCaptioner, shown: Iterator[Shown], count: int, search: Search
) -> list[JudgedCaption]:
    """Write and judge captions of the `count` pairs in `shown`. Raises InputError for an invalid image."""
    found: list[JudgedCaption] = []
    batches = iter(lambda: list(islice(shown, BATCH)), [])
    squashed = captioner.features.squashed
    for some in track(batches, "captioning", "batches", -(-count // BATCH)):
        images = [
            (squashed(before, f"before of {pair.pair_id}"), squashed(after, f"after of {pair.pair_id}"))
            for _, pair, before, after in some
        ]
        for (kind, pair, _, _), said in zip(some, captioner.of_squashed(images, search), strict=True):
            verdict = judge(said.caption, pair)
            assert verdict is not None  # the pair has its scene
            found.append((kind, pair, said.caption, verdict))
    return found


def judged_labelled(captioner: PictureCaptioner, folder: Path, search: Search) -> list[JudgedCaption]:
    """Write and judge captions of a folder's labelled pairs. Raises InputError for wrong labels or images."""
    pairs = labelled_scenes.read(folder)
    shown = ((str(pair.change_type), pair, folder / pair.before, folder / pair.after) for pair in pairs)
    return judge_captions(captioner, shown, len(pairs), search)


def summary(found: Sequence[JudgedCaption]) -> list[str]:
    """Return the lines of a table with a row per kind of change: pairs, percent of true captions, faults.

    The 95 % interval is a bootstrap over scenes, because the pairs of a scene are not independent.
    """
    kinds = list(dict.fromkeys(kind for kind, *_ in found))
    groups = {kind: [each for each in found if each[0] == kind] for kind in kinds}
    changed = [each for kind in kinds if kind != NO_CHANGE for each in groups[kind]]
    if len({*kinds} - {NO_CHANGE}) > 1:
        groups = {"all changes": changed} | groups
    lines = [f"{'pairs':<24}number  true  (95 % interval)  faults"]
    for kind, judged in groups.items():
        verdicts = [verdict for *_, verdict in judged]
        true = share([verdict.true for verdict in verdicts], [pair.scene_id for _, pair, _, _ in judged])
        faults = Counter(letter for verdict in verdicts for letter in verdict.faults)
        said = ", ".join(f"{FAULTS[letter]} {count}" for letter, count in faults.most_common()) or "none"
        name = "no change" if kind == NO_CHANGE else kind
        lines.append(f"{name:<24}{true.number:>6}{100 * true.value:>6.1f}  {true.interval}  {said}")
    return lines
