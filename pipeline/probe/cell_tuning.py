"""Fine-tune the last layers of a backbone on rendered objects, with the objects' attributes as targets.

As in the linear probe, a linear classifier gets one feature cell: the cell that contains an object's centre.
The classifier and the last layers of the backbone are trained together. Batch norms keep the statistics of
the initial weights. Each time an image is used, its exposure, contrast, white balance, sharpness and noise
are changed at random, so that the features also suit images of other cameras.

B: images of a batch, with S x S pixels; C: channels of the features; H x W: cells of the feature grid.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import LambdaLR
from torchvision import tv_tensors
from torchvision.transforms import v2

from models.backbones.backbone import Backbone, Standardise
from pipeline.compute import devices
from pipeline.config.store_contents import Spec
from pipeline.datasets.images import Indexed
from pipeline.features.preprocessing import batches
from pipeline.io.errors import InputError
from pipeline.io.progress import track
from pipeline.probe.grid_labels import ATTRIBUTES, NOTHING
from pipeline.training.optimisers import factor

BATCH = 32  # number of images per training step
STATISTICS = 64  # number of images from which the statistics of the classifier's inputs are computed
LEARNING_RATE, CLASSIFIER_RATE = 3e-4, 2e-3
WEIGHT_DECAY, CLIP_NORM = 0.01, 1.0
GAIN = (0.9, 1.1)  # range of the factor of each channel, for white balance


@dataclass(frozen=True)
class Labelled:
    """Images of a rendered dataset, with the attributes of the object whose centre a cell contains.

    `classes` has four class indices per cell: colour, shape, material and size (NOTHING: no object).
    """

    root: Path
    images: Sequence[Indexed]
    classes: np.ndarray  # (images, 4, H, W) int8, from grid_labels.centres


def tune(network: Backbone, first: str, spec: Spec, data: Labelled, iterations: int, seed: int) -> None:
    """Train, in place, a backbone's first parameter whose name begins with `first`, and all after it."""
    torch.manual_seed(seed)
    network.to(devices.device())
    if not (data.classes[:, 0] != NOTHING).any():
        raise InputError(f"no cell of {len(data.images)} images holds an object's centre")
    classifier = _Classifier(network, spec, data)
    trained = _trained(network, first)
    groups = [
        {"params": trained, "lr": LEARNING_RATE},
        {"params": list(classifier.linear.parameters()), "lr": CLASSIFIER_RATE},
    ]
    optimiser = torch.optim.AdamW(groups, weight_decay=WEIGHT_DECAY)
    cosine = {"schedule": "cosine", "iterations": iterations}
    schedule = LambdaLR(optimiser, lambda step: factor(cosine, step, epoch=1))
    steps = track(_steps(spec, data, iterations, seed), "fine-tuning", "iterations", iterations)
    for images, classes in steps:
        loss = classifier.loss(network.raw(images), classes)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(trained, CLIP_NORM)
        optimiser.step()
        schedule.step()
    network.requires_grad_(False).cpu()


class _Classifier(nn.Module):
    """Linear classifier that predicts an object's attributes from the standardised features of a cell."""

    def __init__(self, network: Backbone, spec: Spec, data: Labelled):
        super().__init__()
        self.sizes = [len(values) for values in ATTRIBUTES.values()]
        self.linear = nn.Linear(network.channels, sum(self.sizes))
        self.standardise = Standardise(network.channels)
        self.to(devices.device())
        with torch.no_grad():
            first_images = batches(data.root, data.images[:STATISTICS], spec)
            grids = [network.raw(devices.upload(torch.from_numpy(batch))) for batch in first_images]
            self.standardise.take(torch.cat(grids))

    def loss(self, grids: Tensor, classes: Tensor) -> Tensor:
        """Return the cross-entropy of grids (B, C, H, W): mean over objects, sum over the four attributes."""
        features, cell_classes = self.standardise(grids).movedim(1, -1), classes.movedim(1, -1)
        has_object = cell_classes[..., 0] != NOTHING  # (B, H, W)
        logits = self.linear(features[has_object]).split(self.sizes, dim=1)
        targets = cell_classes[has_object].long().unbind(1)
        return torch.stack([F.cross_entropy(*pair) for pair in zip(logits, targets, strict=True)]).sum()


def _trained(network: Backbone, first: str) -> list[nn.Parameter]:
    """Freeze the parameters before the first one whose name begins with `first`. Return the others."""
    keys, parameters = zip(*network.network.named_parameters(), strict=True)
    names = [key.removeprefix("inner.") for key in keys]
    start = next((index for index, name in enumerate(names) if name.startswith(first)), None)
    if start is None:
        raise InputError(f"no layer of the backbone is called {first!r}; its last one is {names[-1]}")
    network.requires_grad_(False)
    return [parameter.requires_grad_() for parameter in parameters[start:]]


def _steps(spec: Spec, data: Labelled, iterations: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield `iterations` batches: augmented images, (B, 3, S, S), and classes of cells, (B, 4, H, W)."""
    random = np.random.default_rng(seed)
    count = min(BATCH, len(data.images))
    rounds = -(-iterations * count // len(data.images))
    rows = np.concatenate([random.permutation(len(data.images)) for _ in range(rounds)])
    rows = rows[: iterations * count]
    labels = torch.from_numpy(data.classes)
    for step, images in enumerate(batches(data.root, [data.images[row] for row in rows], spec, size=count)):
        pixels = devices.upload(torch.from_numpy(images))
        classes = devices.upload(labels[rows[step * count : (step + 1) * count]])
        pairs = [augmented(*pair) for pair in zip(pixels, classes, strict=True)]
        yield torch.stack([image for image, _ in pairs]), torch.stack([cells for _, cells in pairs])


EFFECTS = v2.Compose(
    [
        v2.RandomHorizontalFlip(),
        v2.ColorJitter(brightness=0.3, contrast=0.3),
        v2.RandomApply([v2.GaussianBlur(kernel_size=5, sigma=(0.1, 1.2))]),
    ]
)


def augmented(image: Tensor, classes: Tensor) -> tuple[Tensor, Tensor]:
    """Augment a uint8 image, (3, S, S); if it is mirrored, so are its cells' classes, (4, H, W)."""
    changed_image, mask = EFFECTS(tv_tensors.Image(image), tv_tensors.Mask(classes))
    pixels = changed_image.as_subclass(torch.Tensor)
    pixels = pixels * torch.empty(3, 1, 1, device=pixels.device).uniform_(*GAIN)
    deviation = 5 * torch.rand((), device=pixels.device)  # of the noise, in levels of 0 to 255
    pixels = pixels + torch.randn(pixels.shape, device=pixels.device) * deviation
    return pixels.clamp(0, 255).to(torch.uint8), mask.as_subclass(torch.Tensor).to(classes.dtype)


def compact(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return weights with matrices and kernels in float16; small variances need float32."""
    return {
        name: (tensor.half() if tensor.dim() > 1 else tensor).contiguous() for name, tensor in weights.items()
    }
