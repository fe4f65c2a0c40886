"""Caption two images with trained weights, their features and their vocabulary."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import models.common.captioner
from pipeline.captioning import answers, sources
from pipeline.captioning.answers import ALL, Answer, Limits
from pipeline.captioning.feature_backbone import Made
from pipeline.captioning.features import Features, Picture
from pipeline.confidence import calibration
from pipeline.confidence.calibration import Calibration
from pipeline.confidence.collecting import Reader
from pipeline.confidence.signals import Signalled, signalled
from pipeline.config.store_contents import recorded_spec
from pipeline.decoding.attention_maps import Attended
from pipeline.decoding.beam_search import n_best
from pipeline.decoding.decode_split import attended_captions_of, searching
from pipeline.features.backbone_weights import input_shape
from pipeline.io import content_hashes
from pipeline.io.errors import InputError
from pipeline.text.vocabularies import Vocabulary
from pipeline.weights import trained_model
from pipeline.weights.model_description import Trained


@dataclass(frozen=True)
class Search:
    """Settings of the search for captions. The section `decode` of params.yaml has the same settings."""

    beam: int = 1
    length_penalty: float = 0.0


@dataclass(frozen=True)
class Ranked:
    """One of several captions of a pair, with its log-probability."""

    caption: str
    log_probability: float


@dataclass(frozen=True)
class PictureCaptioner:
    """Captioner of image pairs. `load` returns a captioner; call it with a "before" and an "after" image."""

    model: models.common.captioner.Captioner
    trained: Trained
    vocabulary: Vocabulary
    features: Features
    made: Made
    identity: str  # the first twelve digits of the weights' sha256
    scores: dict[str, Any] | None  # scores.json of a package; None without it
    sha256: str = ""  # hash of the weights' file
    calibration: Calibration | None = None  # confidence.json; None without it

    @classmethod
    def load(
        cls, weights: str | Path, lab: str | Path = ".", confidence: str | Path | None = None
    ) -> "PictureCaptioner":
        """Load `weights`: a package (.zip or folder), or a folder of data/weights of the repository `lab`.

        `confidence` names a confidence.json to use in place of the usual file. Raises InputError naming a
        file that is missing or does not fit.
        """
        weights, lab, given = Path(weights), Path(lab), Path(confidence) if confidence else None
        with sources.opened(weights) as folder:
            model, trained, vocabulary = sources.load(folder, weights, lab)
            network, made = sources.backbone(folder, weights, trained, lab)
            sha256 = content_hashes.sha256(trained_model.weights_file(folder))
            found = sources.scores(folder, weights)
            own = sources.confidence(folder, weights, trained, lab, sha256, given)
        spec = recorded_spec(trained.recipe.features)
        if input_shape(spec) != trained.shape:
            raise InputError(
                f"{weights}: model.yaml names features of {trained.shape}, but {spec} gives others"
            )
        features = Features(network, spec, made.precision)
        model = model.to(features.device)
        return cls(model, trained, vocabulary, features, made, sha256[:12], found, sha256, own)

    def __call__(self, before: Picture, after: Picture, search: Search | None = None) -> str:
        """Return the caption. Raises InputError for an image that does not open."""
        return self.attended(before, after, search).caption

    def attended(self, before: Picture, after: Picture, search: Search | None = None) -> Attended:
        """Return the caption with the attention of each word, and with the alignment of the two images.

        The alignment is None if the model computes none. Raises InputError for an image that does not open.
        """
        return self.of_squashed([self._squashed(before, after)], search or Search(), aligned=True)[0]

    def answer(
        self, before: Picture, after: Picture, limits: Limits | None = None, search: Search | None = None
    ) -> Answer:
        """Return the caption with the probability that it is correct, or the reason why it is withheld.

        Raises InputError for an image that does not open, and as `check_limits` does.
        """
        pair = self._squashed(before, after)
        return self.answers([pair], search or Search(), limits or Limits())[0]

    def ranked(
        self, before: Picture, after: Picture, count: int, search: Search | None = None
    ) -> list[Ranked]:
        """Return the `count` best captions of a beam search, each with its log-probability."""
        pair = self._squashed(before, after)
        return self.ranked_of_squashed([pair], count, search or Search(beam=count))[0]

    def _squashed(self, before: Picture, after: Picture) -> tuple[Any, Any]:
        return self.features.squashed(before, "before"), self.features.squashed(after, "after")

    @torch.inference_mode()
    def of_squashed(
        self, pairs: Sequence[tuple[Any, Any]], search: Search, aligned: bool = False
    ) -> list[Attended]:
        """Caption pairs of images that Features.squashed made. Return each caption with its attention.

        If `aligned`, each caption also has the alignment of the two images, if the model computes it.
        """
        difference = self._encoded(pairs)
        method = searching(search.beam, search.length_penalty)
        found = attended_captions_of(method(self.model, difference), self.model, self.vocabulary)
        return self._aligned(found, difference) if aligned else found

    @torch.inference_mode()
    def answers(self, pairs: Sequence[tuple[Any, Any]], search: Search, limits: Limits = ALL) -> list[Answer]:
        """Return an answer for each pair of images that Features.squashed made.

        Without a calibration, an answer has a caption but no probability.
        """
        self.check_limits(search, limits)
        own = self.calibration
        if own is None:
            return [Answer(each.caption, attended=each) for each in self.of_squashed(pairs, search, True)]
        before, after = self._grids(pairs)
        both = self.model.encode(before, after), self.model.encode(after, before)
        method = searching(search.beam, search.length_penalty)
        found = method(self.model, both[0])
        shown = self._aligned(attended_captions_of(found, self.model, self.vocabulary), both[0])
        captions: Sequence[Signalled | None] = [None] * len(pairs)
        if own.of(search.beam, search.length_penalty):
            captions = signalled(
                self.model, self.vocabulary, method, found.words, *both, own.grammar, own.phrases
            )
        distances: Sequence[Any] = [None] * len(pairs)
        if own.familiarity and not limits.any_images:
            distances = own.familiarity.distances(before, after).tolist()
        each = zip(shown, captions, distances, strict=True)
        return [answers.answer(own, *one, limits) for one in each]

    def check_limits(self, search: Search, limits: Limits) -> None:
        """Raise InputError if `limits.at_least` is above 0, but no calibration was made with this search."""
        own = self.calibrated() if limits.at_least else None
        if own and not own.of(search.beam, search.length_penalty):
            raise InputError(
                f"{calibration.FILE} was made with --beam {own.beam} and --length-penalty "
                f"{own.length_penalty:g}; caption with these, or {calibration.REMEDY}"
            )

    def calibrated(self) -> Calibration:
        """Return the calibration. Raises InputError if there is none."""
        if self.calibration is None:
            raise InputError(
                f"the weights {self.identity} have no {calibration.FILE}; {calibration.REMEDY}, or name one "
                "by --confidence"
            )
        return self.calibration

    def reader(self, own: Calibration) -> Reader:
        """Return a Reader that captions feature grids with the search and rules of a calibration, `own`."""
        search = searching(own.beam, own.length_penalty)
        return Reader(self.model, self.vocabulary, search, own.grammar, own.phrases)

    @torch.inference_mode()
    def ranked_of_squashed(
        self, pairs: Sequence[tuple[Any, Any]], count: int, search: Search
    ) -> list[list[Ranked]]:
        """Return `count` captions for each pair of images that Features.squashed made, best first."""
        difference = self._encoded(pairs)
        found = n_best(self.model, difference, search.beam, count, search.length_penalty)
        return [
            [Ranked(self.vocabulary.decode(each.tokens), each.log_probability) for each in own]
            for own in found
        ]

    def _aligned(
        self, found: list[Attended], difference: models.common.captioner.Difference
    ) -> list[Attended]:
        """Add to each caption the alignment of its two images, if the model computes an alignment."""
        alignment = difference.alignment(list(range(len(found))))
        if alignment is None:
            return found
        each = alignment.half().cpu().numpy()
        return [replace(one, alignment=own) for one, own in zip(found, each, strict=True)]

    def _encoded(self, pairs: Sequence[tuple[Any, Any]]) -> models.common.captioner.Difference:
        return self.model.encode(*self._grids(pairs))

    def _grids(self, pairs: Sequence[tuple[Any, Any]]) -> tuple[Tensor, Tensor]:
        images = [image for pair in pairs for image in pair]
        names = [f"the {side} picture" for _ in pairs for side in ("before", "after")]
        grids = self.features.grids(images, names).float()
        return grids[0::2], grids[1::2]
