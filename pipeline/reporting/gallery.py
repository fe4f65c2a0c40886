"""Make the report's gallery: images, references and captions of selected pairs."""

import base64
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from pipeline.config.params import Params
from pipeline.datasets.images import decode, read_bytes
from pipeline.datasets.schema import NO_CHANGE, Pair
from pipeline.decoding.attention_maps import Attended
from pipeline.io.errors import InputError
from pipeline.reporting import attention_images
from pipeline.reporting.dataset_results import Results, ScoredRun
from pipeline.scoring import truth
from pipeline.scoring.accuracy import says_no_change
from pipeline.statistics.pair_scores import ScoredPair

KINDS = {NO_CHANGE: "no change", None: "kind of change unknown"}
SIDE = 480  # pixels of an embedded image at most
QUALITY = 85  # JPEG quality


@dataclass(frozen=True)
class EmbeddedImage:
    """An image that is embedded in the page, as a data URL (`address`)."""

    address: str
    width: int  # of the embedded image
    height: int
    original: tuple[int, int]  # width and height of the file, which boxes refer to


@dataclass(frozen=True)
class Prediction:
    """A model's caption of a pair in the gallery, and the verdict on this caption."""

    model: str
    words: list[str]
    cider_d: str  # x 100
    says: str  # "change" or "no change"
    right: bool | None  # True if it is right about change or no change; None if that is unknown
    true: bool | None  # True by the scene, or else by the references; None if neither can be checked
    judged: str  # `true` as text, with the wrong words; "" if `true` is None
    wrong: list[bool]  # for each word, True if it is wrong
    blocks: list[str]  # blocks of the image encoder whose maps are shown
    weights: list[list[int]]  # for each word, percent per decoder input; empty without weights


@dataclass(frozen=True)
class Card:
    """A pair of the gallery, with its images and the models' captions."""

    pair: Pair
    kind: str
    before: EmbeddedImage
    after: EmbeddedImage
    predictions: list[Prediction]
    maps: Markup  # JSON that the page's script reads

    def right_or_wrong(self, right: bool) -> str:
        """Return the names of the models that decide correctly whether the pair changed, as one text.

        If `right` is False, return the models that decide wrongly.
        """
        return " ".join(prediction.model for prediction in self.predictions if prediction.right is right)

    def true_or_false(self, true: bool) -> str:
        """Return the names of the models with a true (`true`) or a false caption, as one text."""
        return " ".join(prediction.model for prediction in self.predictions if prediction.true is true)


def gallery(results: Results, params: Params) -> dict[str, Any]:
    """Return the cards of the pairs in `results.gallery`, and the data for the page's filters."""
    first_seed_runs = [run for run in results.runs if run.seed == params.seeds[0]]
    attention_by_model = {run.model: list(run.attended.values()) for run in first_seed_runs}
    all_attended = [attended for pair_attention in attention_by_model.values() for attended in pair_attention]
    pairs_by_kind = {KINDS.get(kind, str(kind)): (kind, pairs) for kind, pairs in results.gallery.items()}
    return {
        "cards": [
            _card(pair, name, results, first_seed_runs, params)
            for name, (_, pairs) in pairs_by_kind.items()
            for pair in pairs
        ],
        "kinds": {  # kind of change -> number of shown pairs, number of test pairs
            name: (len(pairs), sum(pair.change_type == kind for pair in results.test))
            for name, (kind, pairs) in pairs_by_kind.items()
        },
        # models whose captions are known to be right or wrong; True if the truth of any caption is known
        "judged": [
            run.model
            for run in first_seed_runs
            if any(score.right is not None for score in run.scores.values())
        ],
        "checked": any(
            _is_true(score) is not None for run in first_seed_runs for score in run.scores.values()
        ),
        # models with cross-view attention
        "aligned": [
            model
            for model, pair_attention in attention_by_model.items()
            if any(attended.alignment is not None for attended in pair_attention)
        ],
        # rows, columns of maps
        "grids": list(dict.fromkeys(attended.grid for attended in all_attended if attended.images)),
        "encoded": [
            model
            for model, pair_attention in attention_by_model.items()
            if any(attended.blocks for attended in pair_attention)
        ],
        "weighed": _weighed(attention_by_model),
    }


def _weighed(attention_by_model: Mapping[str, Sequence[Attended]]) -> dict[tuple[str, ...], list[str]]:
    """Return names of decoder inputs -> models. Each model's decoder gives weights to these inputs."""
    models_by_inputs: dict[tuple[str, ...], list[str]] = {}
    for model, pair_attention in attention_by_model.items():
        for names in dict.fromkeys(
            tuple(attention_images.phrases(attended)) for attended in pair_attention if attended.weighed
        ):
            models_by_inputs.setdefault(names, []).append(model)
    return models_by_inputs


def _card(pair: Pair, kind: str, results: Results, runs: Sequence[ScoredRun], params: Params) -> Card:
    attention = {run.model: attention_images.embedded(run.attended[pair.pair_id]) for run in runs}
    predictions = [_prediction(pair, run, params.score.no_change_phrases) for run in runs]
    before, after = embedded_image(results, pair.before), embedded_image(results, pair.after)
    return Card(pair, kind, before, after, predictions, script(attention))


def embedded_image(results: Results, name: str) -> EmbeddedImage:
    """Return an image of the dataset, scaled down. Raises InputError if the file has changed."""
    if name not in results.images:
        raise InputError(f"{name} is not in the index of {results.dataset}'s images; run `dvc repro`")
    path = results.root / name
    data = read_bytes(path)
    if hashlib.sha256(data).hexdigest() != results.images[name].sha256:
        raise InputError(f"{path} has changed since the dataset was prepared; run `dvc repro`")
    thumbnail = decode(data, str(path))
    original = thumbnail.size
    thumbnail.thumbnail((SIDE, SIDE))
    buffer = io.BytesIO()
    thumbnail.save(buffer, "JPEG", quality=QUALITY, optimize=True)
    encoded = base64.b64encode(buffer.getvalue()).decode()
    return EmbeddedImage(f"data:image/jpeg;base64,{encoded}", *thumbnail.size, original)


def _prediction(pair: Pair, run: ScoredRun, phrases: Sequence[str]) -> Prediction:
    caption, score = run.captions[pair.pair_id], run.scores[pair.pair_id]
    attended = run.attended[pair.pair_id]
    verdict = truth.judge(caption, pair, phrases)
    wrong = () if verdict is None else verdict.wrong
    return Prediction(
        run.model,
        caption.split(),
        f"{100 * score.cider_d:.1f}",
        "no change" if says_no_change(caption, phrases) else "change",
        score.right,
        _is_true(score),
        _judged(score, wrong),
        truth.marks(caption.split(), wrong),
        list(attended.blocks or ()),
        attention_images.percents(attended),
    )


def _is_true(score: ScoredPair) -> bool | None:
    return score.agrees if score.true is None else score.true


def _judged(score: ScoredPair, wrong: Sequence[str]) -> str:
    if score.true is not None:
        wrong_words = truth.quoted(wrong)
        return "true" if score.true else f"not true: {wrong_words}" if wrong_words else "not true"
    if score.agrees is not None:
        return "agrees with the references" if score.agrees else "does not agree with the references"
    return ""


def script(value: Any) -> Markup:
    """Return `value` as JSON for a script element of the page. Texts in `value` cannot end the element."""
    return Markup(json.dumps(value, separators=(",", ":")).replace("<", "\\u003c"))
