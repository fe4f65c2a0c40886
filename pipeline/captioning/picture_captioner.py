"""Caption two images with trained weights, their features and their vocabulary."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

import models.common.captioner
from pipeline.captioning import sources
from pipeline.captioning.feature_backbone import Made
from pipeline.captioning.features import Features, Picture
from pipeline.config.store_contents import recorded_spec
from pipeline.decoding.attention_maps import Attended
from pipeline.decoding.beam_search import n_best
from pipeline.decoding.decode_split import attended_batch, searching
from pipeline.features.backbone_weights import input_shape
from pipeline.io import content_hashes
from pipeline.io.errors import InputError
from pipeline.text.vocabularies import Vocabulary
from pipeline.weights import trained_model
from pipeline.weights.model_description import Trained


@dataclass(frozen=True)
class Search:
    """Settings of the search for captions, as `decode` in params.yaml."""

    beam: int = 1
    length_penalty: float = 0.0


@dataclass(frozen=True)
class Ranked:
    """One of the best captions of a pair."""

    caption: str
    log_probability: float


@dataclass(frozen=True)
class PictureCaptioner:
    """A captioner of image pairs: make it with `load`, call it with a before and an after image."""

    model: models.common.captioner.Captioner
    trained: Trained
    vocabulary: Vocabulary
    features: Features
    made: Made
    identity: str  # the first twelve digits of the weights' sha256
    scores: dict[str, Any] | None  # scores.json of a package; None without it

    @classmethod
    def load(cls, weights: str | Path, lab: str | Path = ".") -> "PictureCaptioner":
        """Load a package (.zip or folder), or a folder of data/weights of the laboratory `lab`.

        Raises InputError naming a file that is missing or does not fit.
        """
        weights, lab = Path(weights), Path(lab)
        with sources.opened(weights) as folder:
            model, trained, vocabulary = sources.load(folder, weights, lab)
            network, made = sources.backbone(folder, weights, trained, lab)
            identity = content_hashes.sha256(trained_model.weights_file(folder))[:12]
            found = sources.scores(folder, weights)
        spec = recorded_spec(trained.recipe.features)
        if input_shape(spec) != trained.shape:
            raise InputError(
                f"{weights}: model.yaml names features of {trained.shape}, but {spec} gives others"
            )
        features = Features(network, spec, made.precision)
        return cls(model.to(features.device), trained, vocabulary, features, made, identity, found)

    def __call__(self, before: Picture, after: Picture, search: Search | None = None) -> str:
        """Return the caption. Raises InputError for an image that does not open."""
        return self.attended(before, after, search).caption

    def attended(self, before: Picture, after: Picture, search: Search | None = None) -> Attended:
        """Return the caption's words with their attention, and the alignment if the model has one."""
        return self.of_squashed([self._squashed(before, after)], search or Search(), aligned=True)[0]

    def ranked(
        self, before: Picture, after: Picture, count: int, search: Search | None = None
    ) -> list[Ranked]:
        """Return the `count` best captions of a beam search with their log-probabilities."""
        pair = self._squashed(before, after)
        return self.ranked_of_squashed([pair], count, search or Search(beam=count))[0]

    def _squashed(self, before: Picture, after: Picture) -> tuple[Any, Any]:
        return self.features.squashed(before, "before"), self.features.squashed(after, "after")

    @torch.inference_mode()
    def of_squashed(
        self, pairs: Sequence[tuple[Any, Any]], search: Search, aligned: bool = False
    ) -> list[Attended]:
        """Caption pairs of images from Features.squashed."""
        difference = self._encoded(pairs)
        found = attended_batch(
            searching(search.beam, search.length_penalty), self.model, difference, self.vocabulary
        )
        alignment = difference.alignment(list(range(len(pairs)))) if aligned else None
        if alignment is None:
            return found
        each = alignment.half().cpu().numpy()
        return [replace(one, alignment=own) for one, own in zip(found, each, strict=True)]

    @torch.inference_mode()
    def ranked_of_squashed(
        self, pairs: Sequence[tuple[Any, Any]], count: int, search: Search
    ) -> list[list[Ranked]]:
        """Return the best captions of each pair, best first."""
        difference = self._encoded(pairs)
        found = n_best(self.model, difference, search.beam, count, search.length_penalty)
        return [
            [Ranked(self.vocabulary.decode(each.tokens), each.log_probability) for each in own]
            for own in found
        ]

    def _encoded(self, pairs: Sequence[tuple[Any, Any]]) -> models.common.captioner.Difference:
        images = [image for pair in pairs for image in pair]
        names = [f"the {side} picture" for _ in pairs for side in ("before", "after")]
        grids = self.features.grids(images, names).float()
        return self.model.encode(grids[0::2], grids[1::2])
