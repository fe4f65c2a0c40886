"""Statistics of the pixels of a dataset's images, and of altered copies, to which a calibration is fitted.

SIZE: number of statistics of an image (appearance.py).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from pipeline.confidence import altered_images
from pipeline.confidence.appearance import statistics_of
from pipeline.confidence.collecting import spaced
from pipeline.config.params import Params
from pipeline.config.recipe_file import Recipe
from pipeline.config.store_contents import Spec
from pipeline.datasets.images import read_named
from pipeline.datasets.schema import Pair, images_of
from pipeline.features.preprocessing import batches
from pipeline.io.progress import track

MOST_PAIRS = 600  # maximum number of training pairs whose pixels are read
MOST_COPIES = 300  # maximum number of copies of each kind
Copy = Callable[[np.random.Generator, np.ndarray], np.ndarray]
"""Function from a random generator and an image, uint8 (3, H, W), to an altered copy."""


@dataclass(frozen=True)
class DatasetImages:
    """Reader of a dataset's images, at the size at which a backbone reads them."""

    root: Path  # of the images
    index: Path  # file with the images' sizes and hashes
    spec: Spec  # how images are resized

    @classmethod
    def of(cls, lab: Path, settings: Params, recipe: Recipe) -> "DatasetImages":
        """Return the reader of the images of a recipe's dataset. `lab` is the repository's root."""
        root = lab / settings.of(recipe.dataset).prepare.root
        return cls(root, lab / f"data/images/{recipe.dataset}.jsonl", Spec(**recipe.features))

    def statistics(self, pairs: Sequence[Pair]) -> dict[str, np.ndarray]:
        """Return the statistics of the pairs' images: name of an image -> (SIZE,)."""
        names = images_of(pairs)
        return dict(zip(names, self._measured(names), strict=True))

    def of_training(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Return the statistics of training images, and of scaled or compressed copies, (images, SIZE)."""
        names = images_of(spaced(pairs, MOST_PAIRS))
        copies = self._measured(spaced(names, MOST_COPIES), altered_images.recompressed)
        return np.concatenate([self._measured(names), copies])

    def of_foreign_copies(self, pairs: Sequence[Pair]) -> np.ndarray:
        return self._measured(spaced(images_of(pairs), MOST_COPIES), altered_images.foreign)

    def _measured(self, names: Sequence[str], copy: Copy | None = None) -> np.ndarray:
        """Return the statistics of images, or of their copies; equal images give equal copies."""
        random = np.random.default_rng(0)
        found = []
        entries = read_named(self.index, list(names))
        images = chain.from_iterable(batches(self.root, entries, self.spec))
        for image in track(images, "measuring colours and textures", "images", len(names)):
            measured_image = copy(random, image) if copy else image
            found.append(statistics_of(measured_image[None])[0])
        return np.stack(found)
