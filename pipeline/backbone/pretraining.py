"""Train a backbone on tabletop's own images to name what each cell shows; resumes bit for bit.

Everything random is drawn from the seed and the iteration's number. The labels are those of
pipeline/tabletop/grid_labels.py; a further head, `shown`, tells cells with a thing from those without.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from models import backbone as network
from models.backbone import CHANNELS, calibrate, untrained_backbone
from models.grid_classifier import LEFT_OUT, Namer, losses
from pipeline.compute import devices, memory
from pipeline.datasets.images import Indexed
from pipeline.errors import InputError
from pipeline.features.extraction import BATCH, batches
from pipeline.features.store_contents import Spec
from pipeline.outputs import replacing, telling
from pipeline.params import Backbone
from pipeline.prefetch import prefetch
from pipeline.progress import track
from pipeline.tabletop.grid_labels import ATTRIBUTES, NOTHING
from pipeline.training.learning_rate import factor

CLASSES = {name: len(values) for name, values in ATTRIBUTES.items()} | {"shown": 2}
LOG_EVERY = 10  # iterations whose mean loss makes one point of the curve
SAVE_EVERY = 100  # iterations that a kill costs at most
SHARE = 0.5  # of the free memory that images may take
ORDER, MIRROR = 0, 1  # separate streams of random numbers


@dataclass(frozen=True)
class Labelled:
    """N images and what their cells show."""

    images: Tensor  # N x 3 x S x S uint8
    labels: Tensor  # N x 4 x H x W int8, in the order of ATTRIBUTES

    def __len__(self) -> int:
        return len(self.images)


def read_images(root: Path, index: Sequence[Indexed], spec: Spec) -> Tensor:
    """All images of the index in memory, N x 3 x S x S uint8. Raises InputError where they do not fit."""
    wanted, free = len(index) * 3 * spec.size**2, memory.free()
    if free is not None and wanted > SHARE * free:
        raise InputError(
            f"{len(index):,} images of {spec.size} x {spec.size} pixels take {wanted / 1e9:.1f} GB, and "
            f"{free / 1e9:.1f} GB are free ({SHARE:.0%} to be used); lower features.size or tabletop.scenes"
        )
    count = -(-len(index) // BATCH)
    read = track(batches(root, index, spec), "reading images", "batches", count)
    return torch.cat(list(read))


def targets(labels: Tensor) -> dict[str, Tensor]:
    """The class of every cell by attribute, B x H x W int64, from labels B x 4 x H x W."""
    classes = labels.long().masked_fill(labels == NOTHING, LEFT_OUT)  # no thing, no attributes
    named = {name: classes[:, place] for place, name in enumerate(ATTRIBUTES)}
    return named | {"shown": (labels[:, 0] != NOTHING).long()}


@lru_cache(maxsize=2)  # a batch touches two epochs at most
def _order(seed: int, epoch: int, count: int) -> np.ndarray:
    return np.random.default_rng([seed, ORDER, epoch]).permutation(count)


def draw(data: Labelled, batch: int, seed: int, iteration: int) -> Labelled:
    """The images of an iteration, counted from 0: epochs end to end, every second image mirrored by chance.

    A mirrored picture shows the same things in mirrored cells.
    """
    epochs, places = np.divmod(iteration * batch + np.arange(batch), len(data))
    pairs = zip(epochs.tolist(), places.tolist(), strict=True)
    rows = torch.tensor([int(_order(seed, epoch, len(data))[place]) for epoch, place in pairs])
    turned = np.random.default_rng([seed, MIRROR, iteration]).random(batch) < 0.5
    mask = torch.from_numpy(turned)[:, None, None, None]
    images, labels = data.images[rows], data.labels[rows]
    return Labelled(torch.where(mask, images.flip(-1), images), torch.where(mask, labels.flip(-1), labels))


def build(spec: Spec, seed: int) -> Namer:
    """An untrained Namer of the spec's layer; the same seed gives the same one."""
    backbone = untrained_backbone(spec.layer, seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Namer(backbone, CHANNELS[spec.layer], CLASSES)


class Naming:
    """One training run of a Namer; `state` is the file that it is resumed from."""

    def __init__(self, namer: Namer, settings: Backbone, state: Path):
        self.device = devices.device()
        self.dtype = devices.precision(settings.precision, self.device)
        self.namer = namer.to(self.device).to(memory_format=torch.channels_last)
        self.settings, self.state = settings, state
        self.optimiser = torch.optim.Adam(namer.parameters(), lr=settings.learning_rate, fused=True)
        self.iteration = 0  # iterations done
        self.curve: list[dict[str, float]] = []  # each attribute's mean loss over LOG_EVERY iterations
        self._resume()

    def run(self, data: Labelled) -> None:
        """Train to the last iteration. Raises InputError where images are too few or a loss is not finite."""
        batch, iterations = self.settings.batch, self.settings.iterations
        if len(data) < batch:
            raise InputError(
                f"backbone.batch is {batch} images, but the train split has {len(data)}; lower it"
            )
        todo = range(self.iteration, iterations)
        drawn = prefetch(lambda i: draw(data, batch, self.settings.seed, i), todo, threads=1, ahead=2)
        logged: list[Tensor] = []
        self.namer.train()
        shown = track(drawn, "training the backbone", "iterations", iterations, done=todo.start)
        for iteration, part in zip(todo, shown, strict=True):
            logged.append(self.step(part, iteration))
            last = iteration + 1 == iterations
            saving = (iteration + 1) % SAVE_EVERY == 0 or last
            if saving or (iteration + 1) % LOG_EVERY == 0:
                self._log(iteration + 1, logged)
                logged = []
            if saving:
                self._save(iteration + 1)

    def step(self, batch: Labelled, iteration: int) -> Tensor:
        """One Adam step on the sum of the heads' losses; returns them, in the order of CLASSES."""
        rate = self.settings.learning_rate * factor("cosine", iteration, self.settings.iterations, 1)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        terms = losses(self._logits(batch.images), targets(batch.labels.to(self.device)))
        self.optimiser.zero_grad(set_to_none=True)
        terms.sum().backward()
        self.optimiser.step()
        return terms.detach()

    def _logits(self, images: Tensor) -> dict[str, Tensor]:
        with devices.autocast(self.device, self.dtype):
            return self.namer(images.to(self.device))

    @torch.no_grad()
    def accuracy(self, data: Labelled) -> dict[str, float]:
        """The share of cells that each head names rightly: of those with a thing, for `shown` of all."""
        self.namer.eval()
        right, counted = dict.fromkeys(CLASSES, 0), dict.fromkeys(CLASSES, 0)
        for start in range(0, len(data), BATCH):
            wanted = targets(data.labels[start : start + BATCH])
            for name, logits in self._logits(data.images[start : start + BATCH]).items():
                kept = wanted[name] != LEFT_OUT
                right[name] += int((logits.argmax(-1).cpu() == wanted[name])[kept].sum())
                counted[name] += int(kept.sum())
        return {name: right[name] / counted[name] for name in CLASSES if counted[name]}

    def calibrate(self, images: Tensor) -> None:
        """Give every batch norm the statistics of all these images (N x 3 x S x S) under the last weights."""
        calibrate(self.namer.backbone, (part.to(self.device) for part in images.split(BATCH)))

    def _log(self, iteration: int, logged: list[Tensor]) -> None:
        """Read the losses off the device, all at once, and refuse to go on where one is not finite."""
        table = torch.stack(logged).double().cpu()  # iterations x heads
        if not table.isfinite().all():
            raise InputError(
                f"the backbone's loss is not finite by iteration {iteration}; "
                f"lower backbone.learning_rate (now {self.settings.learning_rate:g})"
            )
        means = dict(zip(CLASSES, table.mean(0).tolist(), strict=True))
        self.curve.append({"iteration": iteration, **means})

    def _save(self, iteration: int) -> None:
        self.iteration = iteration
        record = {
            "iteration": iteration,
            "curve": self.curve,
            "namer": self.namer.state_dict(),
            "optimiser": self.optimiser.state_dict(),
        }
        with replacing(self.state) as beside, telling(beside) as file:
            torch.save(record, file)

    def _resume(self) -> None:
        if self.state.exists():
            record = torch.load(self.state, map_location=self.device, weights_only=True)
            self.namer.load_state_dict(record["namer"])
            self.optimiser.load_state_dict(record["optimiser"])
            self.iteration, self.curve = record["iteration"], record["curve"]


def save(path: Path, backbone: network.Backbone, made: dict[str, Any]) -> None:
    """Write the weights for `features.weights`; `made` says in the file's metadata how they came about."""
    tensors = {name: tensor.cpu().contiguous() for name, tensor in backbone.stages.state_dict().items()}
    # one key: safetensors writes several in no certain order
    with replacing(path) as beside:
        save_file(tensors, beside, metadata={"made": json.dumps(made, sort_keys=True)})
