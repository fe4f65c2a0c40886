"""Pairs, features and captions -> batches, drawn from a seed and the iteration's number alone.

An iteration draws scenes without replacement within an epoch and trains on every pair of each:
part 0 holds the scenes' first pairs (CLEVR-Change: the semantic change), part 1 their second
ones (the distractor), and so on (SCORER section 4.3). Because nothing is carried from one
iteration to the next, training resumes anywhere and continues as if never interrupted.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from models.common.trainable import Labels
from pipeline.datasets.schema import NO_CHANGE, Pair, images_of
from pipeline.features.memory_cache import Resident, images
from pipeline.features.store import FeatureStore
from pipeline.io.errors import InputError
from pipeline.io.prefetch import prefetch
from pipeline.text.vocabularies import Vocabulary, pad
from pipeline.training.augmentation import Moved, draw

Scene = tuple[Pair, ...]
EPOCH, ITERATION, MOVES = 0, 1, 2  # separate streams of random numbers


@dataclass(frozen=True)
class Batch:
    """P parts of B pairs each, part after part; an image that several pairs show stands in it once."""

    images: Tensor  # U x C x H x W, float16
    before: Tensor  # P*B, int64: rows of `images`
    after: Tensor  # P*B, int64
    tokens: Tensor  # P*B*R x (L+1), int64: R captions a pair with both marks, one after another, NULL-padded
    parts: int  # P
    changed: Tensor | None = None  # P*B, int64: 1 changed, 0 not, -1 nobody says
    task: str = ""  # of a pre-training of several tasks
    classes: Tensor | None = None  # 2 x B, int64, where pairs have classes in place of captions

    def labels(self, device: torch.device) -> Labels | None:
        """What is known of the pairs beside their captions, if anything."""
        if self.changed is None:
            return None
        classes = None if self.classes is None else self.classes.to(device, non_blocking=True)
        return Labels(self.changed.to(device, non_blocking=True), self.task, classes)


def scenes_of(pairs: Sequence[Pair]) -> list[Scene]:
    """Pairs by scene, in order; where scenes have different numbers of pairs, every pair for itself."""
    scenes: dict[str, list[Pair]] = {}
    for pair in pairs:
        scenes.setdefault(pair.scene_id, []).append(pair)
    if len({len(scene) for scene in scenes.values()}) == 1:
        return [tuple(scene) for scene in scenes.values()]
    return [(pair,) for pair in pairs]


def sentences_of(pairs: Sequence[Pair]) -> list[Scene]:
    """Each sentence with its pair, for itself; none of pairs where nothing changed (CLIP4IDC, stage 1)."""
    return [
        (replace(pair, captions=(caption,)),)
        for pair in pairs
        if pair.change_type != NO_CHANGE
        for caption in pair.captions
    ]


def exchange(scene: Scene) -> Scene:
    """The scene with the two images of its no-change pair exchanged wherever they stand.

    (default, changed) becomes (distractor, changed); (default, distractor) is turned round.
    Captions stay true. A scene without a no-change pair stays as it is.
    """
    for pair in scene:
        if pair.change_type == NO_CHANGE:
            swap = {pair.before: pair.after, pair.after: pair.before}
            return tuple(
                replace(p, before=swap.get(p.before, p.before), after=swap.get(p.after, p.after))
                for p in scene
            )
    return scene


class Draws(Protocol):
    """What draws the batches of a phase."""

    batch: int  # scenes
    references: int
    scenes: list[Scene]

    @property
    def epoch(self) -> int:
        """Iterations that draw every scene once."""

    def draw(self, iteration: int) -> tuple[list[Scene], list[list[list[str]]]]:
        """The scenes of an iteration, and the captions for each pair of each."""

    def moves(self, iteration: int, scenes: Sequence[Scene]) -> dict[str, Moved]:
        """How each scene of an iteration is moved, by its id."""

    def task(self, iteration: int) -> str:
        """Its task, where a phase has several."""

    def wordless(self, iteration: int) -> Batch | None:
        """The whole batch of an iteration whose task reads no captions."""


class Sampler:
    """Draws the batches of one training run, `references` captions a pair.

    `by_sentence`: what is drawn is a sentence with its pair, and `exchanging` puts the scene's distractor
    image in the place of before with probability 1/2. `mirror`, `shift`: see augmentation.py.
    Raises InputError where there are fewer scenes than a batch.
    """

    def __init__(
        self,
        pairs: Sequence[Pair],
        batch: int,
        seed: int,
        exchanging: bool,
        references: int = 1,
        by_sentence: bool = False,
        mirror: bool = False,
        shift: int = 0,
    ):
        self.scenes = sentences_of(pairs) if by_sentence else scenes_of(pairs)
        self.batch, self.seed, self.exchanging, self.references = batch, seed, exchanging, references
        self.mirror, self.shift = mirror, shift
        self.distractors = {
            pair.scene_id: pair.after for pair in pairs if by_sentence and pair.change_type == NO_CHANGE
        }
        if len(self.scenes) < batch:
            items = "sentences" if by_sentence else "scenes"
            raise InputError(
                f"train.batch is {batch} {items}, but the train split has {len(self.scenes)}; lower it"
            )

    @property
    def epoch(self) -> int:
        """Iterations that draw every scene once; scenes that do not fill a batch wait for the next epoch."""
        return len(self.scenes) // self.batch

    def draw(self, iteration: int) -> tuple[list[Scene], list[list[list[str]]]]:
        """The scenes of an iteration (counted from 0), and the captions for each pair of each."""
        epoch, place = divmod(iteration, self.epoch)
        order = np.random.default_rng([self.seed, EPOCH, epoch]).permutation(len(self.scenes))
        chosen = [self.scenes[i] for i in order[place * self.batch : (place + 1) * self.batch]]
        random = np.random.default_rng([self.seed, ITERATION, iteration])
        if self.exchanging:
            chosen = [self._exchanged(scene) if random.random() < 0.5 else scene for scene in chosen]
        captions = [[drawn(pair.captions, self.references, random) for pair in scene] for scene in chosen]
        return chosen, captions

    def _exchanged(self, scene: Scene) -> Scene:
        if not self.distractors:
            return exchange(scene)
        (pair,) = scene
        return (replace(pair, before=self.distractors.get(pair.scene_id, pair.before)),)

    def moves(self, iteration: int, scenes: Sequence[Scene]) -> dict[str, Moved]:
        """How each scene of an iteration is moved, by its id; empty where nothing is."""
        if not self.mirror and not self.shift:
            return {}
        random = np.random.default_rng([self.seed, MOVES, iteration])
        return draw((scene[0].scene_id for scene in scenes), self.mirror, self.shift, random)

    def task(self, iteration: int) -> str:
        """There is one alone."""
        return ""

    def wordless(self, iteration: int) -> Batch | None:
        """Every batch has captions."""
        return None


def drawn(captions: Sequence[str], number: int, random: np.random.Generator) -> list[str]:
    """So many different ones at random; where there are fewer, all of them before one comes again."""
    chosen: list[str] = []
    left: list[str] = []
    for _ in range(number):
        left = left or list(captions)
        chosen.append(left.pop(random.integers(len(left))))
    return chosen


def training_batches(
    sampler: Draws,
    store: FeatureStore | Resident,
    vocabulary: Vocabulary,
    iterations: range,
    share: slice = slice(None),
) -> Iterator[Batch]:
    """The batch of each iteration, read ahead by a thread; in pinned memory where there is a GPU.

    `share`: which scenes of each batch are this process's; the others' are not read.
    """

    def make(iteration: int) -> Batch:
        if (whole := sampler.wordless(iteration)) is not None:
            return whole
        all_scenes, all_captions = sampler.draw(iteration)
        moves = sampler.moves(iteration, all_scenes)
        scenes, captions = all_scenes[share], all_captions[share]
        return assembled(scenes, captions, store, vocabulary, moves, sampler.task(iteration))

    return prefetch(make, iterations, workers=1, ahead=2)


def assembled(
    scenes: Sequence[Scene],
    captions: Sequence[Sequence[Sequence[str]]],
    store: FeatureStore | Resident,
    vocabulary: Vocabulary,
    moves: Mapping[str, Moved],
    task: str = "",
) -> Batch:
    """The batch of some scenes, with the captions of each pair of each."""
    pairs = [pair for part in zip(*scenes, strict=True) for pair in part]
    texts = [text for part in zip(*captions, strict=True) for several in part for text in several]
    names = images_of(pairs)
    row = {name: number for number, name in enumerate(names)}
    shown = images(store, names)
    if moves:
        shown, texts = moved(shown, names, pairs, texts, moves)
    tensors = (
        shown,
        torch.tensor([row[pair.before] for pair in pairs]),
        torch.tensor([row[pair.after] for pair in pairs]),
        torch.from_numpy(pad([vocabulary.encode(text) for text in texts])),
        torch.tensor([-1 if pair.changed is None else int(pair.changed) for pair in pairs]),
    )
    features, before, after, tokens, changed = map(pinned, tensors)
    return Batch(features, before, after, tokens, len(scenes[0]), changed, task)


def moved(
    shown: Tensor, names: Sequence[str], pairs: Sequence[Pair], texts: list[str], moves: Mapping[str, Moved]
) -> tuple[Tensor, list[str]]:
    """The images `names` and the pairs' captions, as many each, after their scenes' moves."""
    scene = {name: pair.scene_id for pair in pairs for name in (pair.before, pair.after)}
    each = len(texts) // len(pairs)
    changed = [moves[scene[name]].image(image) for name, image in zip(names, shown, strict=True)]
    said = [moves[pairs[number // each].scene_id].caption(text) for number, text in enumerate(texts)]
    return torch.stack(changed), said


def pinned(tensor: Tensor) -> Tensor:
    """Copies from pinned memory to a GPU do not make the program wait."""
    return tensor.pin_memory() if torch.cuda.is_available() and tensor.device.type == "cpu" else tensor
