"""Draw batches of pairs, features and captions, which depend only on the seed and the iteration number.

Each iteration draws scenes, without replacement within an epoch, and trains on every pair of each scene. Part
0 of a batch holds the first pair of each scene (CLEVR-Change: the semantic change), part 1 the second pair
(the distractor), and so on (SCORER, section 4.3).

P: parts of a batch; B: pairs of a part, one of each scene; U: images of a batch; C: feature channels;
H x W: grid; R: captions per pair; L: words.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from models.common.trainable import Labels
from pipeline.compute import devices
from pipeline.datasets.schema import NO_CHANGE, ClassPair, Pair, images_of
from pipeline.features.memory_cache import Resident, images
from pipeline.features.store import FeatureStore
from pipeline.io.errors import InputError
from pipeline.io.prefetch import prefetch
from pipeline.text.vocabularies import Vocabulary, pad
from pipeline.training import mirrored_captions
from pipeline.training.kinds import number_of
from pipeline.training.scenes import Scene, exchange, scenes_of, sentences_of, uneven

EPOCH, ITERATION, MOVES = 0, 1, 2  # separate streams of random numbers


@dataclass(frozen=True)
class Moved:
    """Augmentation of a scene, the same for all its images: mirroring, and then a shift."""

    mirrored: bool
    down: int  # pixels; negative: up
    right: int  # pixels; negative: left

    def image(self, pixels: Tensor) -> Tensor:
        """Return the image `pixels`, (C, H, W), mirrored and shifted; new pixels repeat the nearest edge."""
        pixels = pixels.flip(-1) if self.mirrored else pixels
        for axis, shift in ((1, self.down), (2, self.right)):
            indices = (torch.arange(pixels.shape[axis]) - shift).clamp(0, pixels.shape[axis] - 1)
            pixels = pixels.index_select(axis, indices)
        return pixels

    def caption(self, text: str) -> str:
        return mirrored_captions.mirrored(text) if self.mirrored else text


@dataclass(frozen=True)
class Batch:
    """Batch of P * B pairs, with U distinct images and R captions per pair.

    The batch has P pairs of each of B scenes. Part p has pair p of each scene; part 0 comes first in
    the tensors. Captions have <START> and <END>, and are padded with NULL to the length L + 1.
    """

    images: Tensor  # (U, C, H, W), float16
    before: Tensor  # (P*B,), int64: indices in `images`
    after: Tensor  # (P*B,), int64: indices in `images`
    tokens: Tensor  # (P*B*R, L+1), int64: the R captions of a pair are consecutive
    parts: int  # P
    changed: Tensor | None = None  # (P*B,), int64: 1 changed, 0 unchanged, -1 unknown
    task: str = ""  # in a pretraining with several tasks
    classes: Tensor | None = None  # (2, B), int64, for pairs that have classes instead of captions
    pairs: tuple[Pair, ...] = ()  # the P*B pairs, if they have captions
    kinds: Tensor | None = None  # (P*B,), int64: numbers of trainable.KINDS, -1 unknown

    def labels(self, device: torch.device) -> Labels | None:
        if self.changed is None:
            return None
        classes, kinds = (
            None if numbers is None else numbers.to(device, non_blocking=True)
            for numbers in (self.classes, self.kinds)
        )
        return Labels(self.changed.to(device, non_blocking=True), self.task, classes, kinds)


class Draws:
    """Base class of samplers of a phase's batches. Subclasses set the attributes and define `draw`."""

    note: str | None = None  # what the user should know about the batches
    batch: int  # scenes
    references = 1  # captions per pair
    scenes: list[Scene]

    @property
    def epoch(self) -> int:
        return len(self.scenes) // self.batch

    def draw(self, iteration: int) -> tuple[list[Scene], list[list[list[str]]]]:
        """Return an iteration's scenes, and its captions: element [i][j] lists those of pair j of scene i."""
        raise NotImplementedError

    def moves(self, iteration: int, scenes: Sequence[Scene]) -> dict[str, Moved]:
        return {}

    def task(self, iteration: int) -> str:
        return ""

    def wordless(self, iteration: int) -> Batch | None:
        """Return the batch of a task without captions; None: `draw` must be called."""
        return None


class Sampler(Draws):
    """Sampler of training batches, with `references` captions per pair.

    settings: settings of the training phase
    by_sentence: True if the items of a batch are captions, each with its pair; False if they are scenes

    If settings["exchange"] is True, each item is changed with probability 1/2. In a scene, the default
    image and the distractor image (the unchanged view) change places. In the pair of a caption, the
    distractor image replaces the before image. Raises InputError if a batch needs more items than the
    train split has, or if images are mirrored and a caption's sides are unclear (mirrored_captions.py).
    """

    def __init__(
        self, pairs: Sequence[Pair], settings: Mapping[str, Any], seed: int, by_sentence: bool = False
    ):
        self.scenes = sentences_of(pairs) if by_sentence else scenes_of(pairs)
        self.note = None if by_sentence else uneven(pairs)
        self.batch, self.references, self.seed = settings["batch"], settings["references"], seed
        self.exchanging = settings["exchange"]
        self.mirror, self.shift = settings.get("mirror", False), settings.get("shift", 0)
        if self.mirror:
            mirrored_captions.check(pairs)
        self.distractors = {
            pair.scene_id: pair.after for pair in pairs if by_sentence and pair.change_type == NO_CHANGE
        }
        if len(self.scenes) < self.batch:
            items = "sentences" if by_sentence else "scenes"
            raise InputError(
                f"train.batch is {self.batch} {items}, but the train split has {len(self.scenes)}; lower it"
            )

    def draw(self, iteration: int) -> tuple[list[Scene], list[list[list[str]]]]:
        epoch, position = divmod(iteration, self.epoch)
        order = np.random.default_rng([self.seed, EPOCH, epoch]).permutation(len(self.scenes))
        scenes = [self.scenes[i] for i in order[position * self.batch : (position + 1) * self.batch]]
        random = np.random.default_rng([self.seed, ITERATION, iteration])
        if self.exchanging:
            scenes = [self._exchanged(scene) if random.random() < 0.5 else scene for scene in scenes]
        captions = [[drawn(pair.captions, self.references, random) for pair in scene] for scene in scenes]
        return scenes, captions

    def _exchanged(self, scene: Scene) -> Scene:
        if not self.distractors:
            return exchange(scene)
        (pair,) = scene
        return (replace(pair, before=self.distractors.get(pair.scene_id, pair.before)),)

    def moves(self, iteration: int, scenes: Sequence[Scene]) -> dict[str, Moved]:
        if not self.mirror and not self.shift:
            return {}
        random = np.random.default_rng([self.seed, MOVES, iteration])
        moves: dict[str, Moved] = {}
        for scene_id in dict.fromkeys(scene[0].scene_id for scene in scenes):
            down, right = random.integers(-self.shift, self.shift + 1, 2).tolist()
            moves[scene_id] = Moved(self.mirror and random.random() < 0.5, down, right)
        return moves


def drawn(captions: Sequence[str], number: int, random: np.random.Generator) -> list[str]:
    """Draw `number` captions without replacement; when all captions are drawn, start again with all."""
    drawn_captions: list[str] = []
    remaining: list[str] = []
    for _ in range(number):
        remaining = remaining or list(captions)
        drawn_captions.append(remaining.pop(random.integers(len(remaining))))
    return drawn_captions


def training_batches(
    sampler: Draws,
    store: FeatureStore | Resident,
    vocabulary: Vocabulary,
    iterations: range,
    share: slice = slice(None),
) -> Iterator[Batch]:
    """Yield the batch of each iteration, on the GPU if there is one; `share`: the scenes of this process."""

    def make(iteration: int) -> Batch:
        if (batch := sampler.wordless(iteration)) is not None:
            return batch
        all_scenes, all_captions = sampler.draw(iteration)
        moves = sampler.moves(iteration, all_scenes)
        scenes, captions = all_scenes[share], all_captions[share]
        return assembled(scenes, captions, store, vocabulary, moves, sampler.task(iteration))

    return prefetch(make, iterations, workers=1 + torch.cuda.is_available(), ahead=2)


def assembled(
    scenes: Sequence[Scene],
    captions: Sequence[Sequence[Sequence[str]]],
    store: FeatureStore | Resident,
    vocabulary: Vocabulary,
    moves: Mapping[str, Moved],
    task: str = "",
) -> Batch:
    """Return a batch. captions[i][j]: captions of pair j of scene i; moves: scene id -> augmentation."""
    pairs = [pair for part in zip(*scenes, strict=True) for pair in part]
    texts = [text for part in zip(*captions, strict=True) for of_pair in part for text in of_pair]
    names = images_of(pairs)
    features = images(store, names)
    if moves:
        features, texts = moved(features, names, pairs, texts, moves)
    tensors = (
        features,
        *image_indices(pairs, names),
        torch.from_numpy(pad([vocabulary.encode(text) for text in texts])),
        torch.tensor([-1 if pair.changed is None else int(pair.changed) for pair in pairs]),
        torch.tensor([number_of(pair) for pair in pairs]),
    )
    features, before, after, tokens, changed, kinds = map(devices.upload, tensors)
    parts = len(scenes[0])
    return Batch(features, before, after, tokens, parts, changed, task, pairs=tuple(pairs), kinds=kinds)


def image_indices(pairs: Sequence[Pair] | Sequence[ClassPair], names: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Return the indices in `names` of the B pairs' before images and after images, as two tensors, (B,)."""
    index = {name: number for number, name in enumerate(names)}
    before, after = [index[pair.before] for pair in pairs], [index[pair.after] for pair in pairs]
    return torch.tensor(before), torch.tensor(after)


def moved(
    images: Tensor, names: Sequence[str], pairs: Sequence[Pair], texts: list[str], moves: Mapping[str, Moved]
) -> tuple[Tensor, list[str]]:
    """Augment images, (U, C, H, W), and captions by their scenes' moves; each pair has as many captions."""
    scene_ids = {name: pair.scene_id for pair in pairs for name in (pair.before, pair.after)}
    moved_images = [moves[scene_ids[name]].image(image) for name, image in zip(names, images, strict=True)]
    repeated = [pair for pair in pairs for _ in range(len(texts) // len(pairs))]
    moved_texts = [moves[pair.scene_id].caption(text) for pair, text in zip(repeated, texts, strict=True)]
    return torch.stack(moved_images), moved_texts
