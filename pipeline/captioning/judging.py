"""Judge the captions of pairs with known scenes: rendered scenes, or real images labelled by hand."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from pipeline.captioning.feature_backbone import ImageInput
from pipeline.captioning.pair_captioner import PairCaptioner, Search
from pipeline.datasets import labelled_scenes
from pipeline.datasets.schema import NO_CHANGE, Pair
from pipeline.io.progress import track
from pipeline.judging.strict import judge
from pipeline.judging.verdicts import FAULTS, Verdict
from pipeline.statistics.bootstrap import share

BATCH = 20  # pairs captioned at once
JudgedCaption = tuple[Pair, str, Verdict]  # the pair, the caption, its verdict


@dataclass(frozen=True)
class PairImages:
    """Two images, and the pair whose scene they show. `pair` is None if the scene is unknown."""

    before: ImageInput
    after: ImageInput
    pair: Pair | None


def judge_captions(
    captioner: PairCaptioner, pairs: Iterator[PairImages], count: int, search: Search
) -> list[JudgedCaption]:
    """Write and judge captions of the `count` pairs in `pairs`, whose scenes are known.

    Raises InputError for an image that does not open.
    """
    judged: list[JudgedCaption] = []
    batches = iter(lambda: list(islice(pairs, BATCH)), [])
    squashed = captioner.features.squashed
    for batch in track(batches, "captioning", "batches", -(-count // BATCH)):
        images = [(squashed(item.before), squashed(item.after)) for item in batch]
        for item, attended in zip(batch, captioner.of_squashed(images, search), strict=True):
            assert item.pair is not None
            verdict = judge(attended.caption, item.pair)
            assert verdict is not None  # the pair has its scene
            judged.append((item.pair, attended.caption, verdict))
    return judged


def judged_labelled(captioner: PairCaptioner, folder: Path, search: Search) -> list[JudgedCaption]:
    """Caption the pairs of real images in `folder`, and judge by its hand-made labels.jsonl."""
    pairs = labelled_scenes.read(folder)
    images = (PairImages(folder / pair.before, folder / pair.after, pair) for pair in pairs)
    return judge_captions(captioner, images, len(pairs), search)


def summary(judged: Sequence[JudgedCaption]) -> list[str]:
    """Return the lines of a table with a row per kind of change, "no change" included.

    If there are several kinds of change, the first row is for all changes. The columns are the number
    of pairs, the percentage of true captions with its 95 % interval, and each fault with its count
    (FAULTS in verdicts.py). The interval is a bootstrap over scenes, because the pairs of a scene are not
    independent.
    """
    groups: dict[str, list[JudgedCaption]] = {}
    for item in judged:
        groups.setdefault(str(item[0].change_type), []).append(item)
    if len(groups.keys() - {NO_CHANGE}) > 1:
        changes = [item for kind, group in groups.items() if kind != NO_CHANGE for item in group]
        groups = {"all changes": changes} | groups
    lines = [f"{'pairs':<24}number  true  (95 % interval)  faults"]
    for kind, group in groups.items():
        true = share([verdict.true for _, _, verdict in group], [pair.scene_id for pair, _, _ in group])
        counts = Counter(letter for _, _, verdict in group for letter in verdict.faults)
        faults = ", ".join(f"{FAULTS[letter]} {count}" for letter, count in counts.most_common()) or "none"
        name = "no change" if kind == NO_CHANGE else kind
        lines.append(f"{name:<24}{true.number:>6}{100 * true.value:>6.1f}  {true.interval}  {faults}")
    return lines
