"""Caption image pairs with trained weights, using the features and vocabulary of the training."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from models.common.captioner import Captioner, Difference
from pipeline.captioning import sources
from pipeline.captioning.feature_backbone import FeatureInput, FeatureSource, ImageInput
from pipeline.confidence import calibration
from pipeline.confidence.appearance import statistics_of
from pipeline.confidence.calibration import Calibration
from pipeline.confidence.signals import Reader, Signalled
from pipeline.config.store_contents import recorded_spec
from pipeline.decoding.attention_maps import Attended
from pipeline.decoding.beam_search import n_best
from pipeline.decoding.decode_split import attended_captions_of, searching
from pipeline.features.backbone_weights import input_shape
from pipeline.io import content_hashes
from pipeline.io.errors import InputError
from pipeline.io.provenance import sha256 as content_hash
from pipeline.judging.no_change import says_no_change
from pipeline.scoring import routing
from pipeline.text import vocabularies
from pipeline.text.vocabularies import Vocabulary
from pipeline.weights import trained_model
from pipeline.weights.model_description import Trained

UNSURE_WHAT = "something changed; not sure what"
UNSURE_WHETHER = "not sure whether anything changed"
DIGITS = 4  # decimal places of a probability
Squashed = tuple[np.ndarray, np.ndarray]
"""Before and after image of a pair, from Features.squashed."""


@dataclass(frozen=True)
class Search:
    """Settings of the search for captions. The section `decode` of params.yaml has the same settings."""

    beam: int = 1
    length_penalty: float = 0.0


@dataclass(frozen=True)
class Limits:
    """Conditions under which a pair gets a caption. Otherwise, its caption is withheld.

    Raises ValueError if `at_least` is not between 0 and 1.
    """

    at_least: float = 0.0  # minimum probability of a caption
    any_images: bool = False  # also caption images that are unlike the training images

    def __post_init__(self) -> None:
        if not 0 <= self.at_least <= 1:
            raise ValueError(f"at_least is a probability from 0 to 1, not {self.at_least}")


GREEDY, ALL = Search(), Limits()


@dataclass(frozen=True)
class Answer:
    """Answer about one pair: a caption, or the reason why the caption is withheld."""

    caption: str | None
    probability: float | None = None  # that the caption is correct; None: unknown
    reason: str | None = None  # why there is no caption
    attended: Attended | None = None  # the caption's words with their attention

    @property
    def record(self) -> dict[str, Any]:
        """Answer as a JSON object; values that are None are left out, except the caption.

        With a model that has routers, the object also has the kind of change that they found.
        """
        kind, probability = (
            (self.attended.kind, self.attended.kind_probability) if self.attended else (None, None)
        )
        found = routing.of_caption(kind, probability, False)
        extra = {"probability": self.probability, "reason": self.reason} | found
        return {"caption": self.caption} | {name: value for name, value in extra.items() if value is not None}

    @property
    def text(self) -> str:
        """Answer as a line of text, with the probability if it is known.

        The line begins with the caption. If the pair was refused, it begins with the reason.
        """
        message, which = (self.reason, "of the caption ") if self.caption is None else (self.caption, "")
        suffix = "" if self.probability is None else f"  (probability {which}{self.probability:.2f})"
        if self.attended and self.attended.kind is not None:
            suffix += f"  (kind of change: {self.attended.kind}, {self.attended.kind_probability:.2f})"
        return f"{message}{suffix}"


@dataclass(frozen=True)
class Ranked:
    """One of several captions of a pair, with its log-probability."""

    caption: str
    log_probability: float


@dataclass(frozen=True)
class PairCaptioner:
    """Captioner of image pairs. `load` returns a captioner; call it with a "before" and an "after" image."""

    model: Captioner
    trained: Trained
    vocabulary: Vocabulary
    features: FeatureInput
    source: FeatureSource
    scores: dict[str, Any] | None  # scores.json of a package; None without it
    sha256: str  # hash of the weights' file
    calibration: Calibration | None = None  # confidence.json; None without it

    @classmethod
    def load(
        cls,
        weights: str | Path,
        lab: str | Path = ".",
        confidence: str | Path | None = None,
        with_calibration: bool = True,
    ) -> "PairCaptioner":
        """Load `weights`: a package (.zip or folder), or a folder of data/weights of the repository `lab`.

        `confidence` is a confidence.json to use instead of the weights' usual one. No such file is read if
        `with_calibration` is False. Raises InputError if a file is missing or does not fit. The message names
        the file.
        """
        lab = Path(lab)
        with sources.opened(Path(weights)) as folder:
            model, trained, vocabulary = sources.load(folder, lab)
            network, source = sources.backbone(folder, trained, lab)
            sha256 = content_hashes.sha256(trained_model.weights_file(folder))
            scores = sources.scores(folder)
            path = Path(confidence or sources.confidence_file(folder, trained, lab))
            is_calibrated = with_calibration and bool(confidence or path.exists())
            fitted = calibration.read(path, sha256) if is_calibrated else None
        spec = recorded_spec(trained.recipe.features)
        if input_shape(spec) != trained.shape:
            raise InputError(
                f"{weights}: model.yaml names features of {trained.shape}, but {spec} gives others"
            )
        features = FeatureInput(network, spec, source.precision)
        return cls(model.to(features.device), trained, vocabulary, features, source, scores, sha256, fitted)

    @property
    def identity(self) -> str:
        return self.sha256[:12]

    @property
    def whole_identity(self) -> str:
        """First twelve digits of a hash of the weights, their description, the words and channel statistics.

        The hash does not include the backbone's weights (see `source`) and the calibration.
        """
        network = self.features.network
        standardise = network.standardise if network else None
        statistics = standardise.state_dict() if standardise else {}
        parts = (self.sha256, repr(self.trained), vocabularies.identity(self.vocabulary))
        return content_hash(*parts, *(repr(tensor.tolist()) for tensor in statistics.values()))[:12]

    def __call__(self, before: ImageInput, after: ImageInput, search: Search = GREEDY) -> str:
        return self.attended(before, after, search).caption

    def attended(self, before: ImageInput, after: ImageInput, search: Search = GREEDY) -> Attended:
        return self.of_squashed([self._squashed(before, after)], search)[0]

    def answer(
        self, before: ImageInput, after: ImageInput, limits: Limits = ALL, search: Search = GREEDY
    ) -> Answer:
        """Return the caption and its probability of being correct, or why `limits` withhold it."""
        return self.answers([self._squashed(before, after)], search, limits)[0]

    def ranked(
        self, before: ImageInput, after: ImageInput, count: int, search: Search | None = None
    ) -> list[Ranked]:
        """Return the `count` best captions of a beam search; ValueError if its beam is narrower."""
        pair = self._squashed(before, after)
        return self.ranked_of_squashed([pair], count, search or Search(beam=count))[0]

    @torch.inference_mode()
    def of_squashed(self, pairs: Sequence[Squashed], search: Search) -> list[Attended]:
        """Return the captions of pairs of resized images, with attention and alignment."""
        difference = self.model.encode(*self._grids(pairs))
        method = searching(search.beam, search.length_penalty)
        return self._attended(method(self.model, difference), difference)

    @torch.inference_mode()
    def answers(self, pairs: Sequence[Squashed], search: Search, limits: Limits = ALL) -> list[Answer]:
        """Return an answer about each pair of resized images: a caption, or why it is withheld.

        `limits` says which captions are withheld. Raises InputError if `limits.at_least` is not 0, but
        there is no calibration that was made with these settings of the search. An answer has no
        probability without such a calibration, or if the images are refused as unlike the training
        images.
        """
        self.check_limits(search, limits)
        fitted = self.calibration
        if fitted is None:
            return [Answer(each.caption, attended=each) for each in self.of_squashed(pairs, search)]
        before, after = self._grids(pairs)
        encoded = self.model.encode(before, after), self.model.encode(after, before)
        reader = self.reader(search, fitted.grammar, fitted.phrases)
        captions = reader.search(self.model, encoded[0])
        signalled: Sequence[Signalled | None] = [None] * len(pairs)
        if fitted.of(search.beam, search.length_penalty):
            signalled = reader.signalled(captions.words, *encoded)
        refused: Sequence[str | None] = [None] * len(pairs)
        distances = np.empty((len(pairs), 0))
        if familiarity := fitted.familiarity:
            sides = [statistics_of(np.stack(side)) for side in zip(*pairs, strict=True)]
            distances = familiarity.distances(before, after, *sides)
            if not limits.any_images:
                refused = [familiarity.reason(row) for row in distances]
        rows = zip(self._attended(captions, encoded[0]), signalled, refused, distances, strict=True)
        return [
            Answer(None, reason=reason) if reason else _answer(fitted, attended, signals, row, limits)
            for attended, signals, reason, row in rows
        ]

    def check_limits(self, search: Search, limits: Limits) -> None:
        """Check that the minimum probability `limits.at_least` can be applied to captions of this search.

        Raises InputError if `limits.at_least` is not 0 and the captioner has no calibration. Raises
        InputError also if `limits.at_least` is not 0 and the calibration was made with another search.
        """
        fitted = self.calibrated() if limits.at_least else None
        if fitted and not fitted.of(search.beam, search.length_penalty):
            raise InputError(
                f"{calibration.FILE} was made with --beam {fitted.beam} and --length-penalty "
                f"{fitted.length_penalty:g}; caption with these, or {calibration.REMEDY}"
            )

    def calibrated(self) -> Calibration:
        """Return the calibration. Raises InputError if there is none."""
        if self.calibration is None:
            raise InputError(
                f"the weights {self.identity} have no {calibration.FILE}; {calibration.REMEDY}, or name one "
                "by --confidence"
            )
        return self.calibration

    def reader(self, search: Search, grammar: bool, own: Collection[str]) -> Reader:
        """Return a Reader of captions with their signals; `own`: the dataset's sentences of no change."""
        method = searching(search.beam, search.length_penalty)
        return Reader(self.model, self.vocabulary, method, grammar, own)

    @torch.inference_mode()
    def ranked_of_squashed(self, pairs: Sequence[Squashed], count: int, search: Search) -> list[list[Ranked]]:
        """Return the `count` best captions of each pair of resized images, best first.

        Raises ValueError if `count` is larger than the beam of `search`.
        """
        difference = self.model.encode(*self._grids(pairs))
        candidates = n_best(self.model, difference, search.beam, count, search.length_penalty)
        return [
            [Ranked(self.vocabulary.decode(item.tokens), item.log_probability) for item in best]
            for best in candidates
        ]

    def _squashed(self, before: ImageInput, after: ImageInput) -> Squashed:
        return self.features.squashed(before, "before"), self.features.squashed(after, "after")

    def _attended(self, found: Any, difference: Difference) -> list[Attended]:
        captions = attended_captions_of(found, self.model, self.vocabulary, difference)
        alignment = difference.alignment(list(range(len(captions))))
        if alignment is None:
            return captions
        grids = alignment.half().cpu().numpy()
        return [replace(caption, alignment=grid) for caption, grid in zip(captions, grids, strict=True)]

    def _grids(self, pairs: Sequence[Squashed]) -> tuple[Tensor, Tensor]:
        images = [image for pair in pairs for image in pair]
        names = [f"the {side} image" for _ in pairs for side in ("before", "after")]
        grids = self.features.grids(images, names).float()
        return grids[0::2], grids[1::2]


def _answer(
    fitted: Calibration,
    attended: Attended,
    signalled: Signalled | None,
    distances: np.ndarray,
    limits: Limits,
) -> Answer:
    if signalled is None:  # the calibration was made with other settings of the search
        return Answer(attended.caption, attended=attended)
    chances = fitted.chances(signalled.numbers[None], np.array([signalled.reports_change]), distances[None])
    probability = round(float(chances[0]), DIGITS)
    if probability >= limits.at_least:
        return Answer(attended.caption, probability, None, attended)
    both_report = signalled.reports_change and not says_no_change(signalled.exchanged, fitted.phrases)
    return Answer(None, probability, UNSURE_WHAT if both_report else UNSURE_WHETHER)
