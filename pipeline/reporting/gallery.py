"""Make the report's gallery: images, references and captions of selected pairs, with attention maps.

A map has 8 bits per cell, in base64.
H, W: rows and columns of the grid of cells. K: number of blocks of the image encoder.
"""

import base64
import io
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from pipeline.config.params import Params
from pipeline.datasets.images import PREPARE_AGAIN, decode
from pipeline.datasets.schema import NO_CHANGE, Pair
from pipeline.decoding.attention_maps import Attended
from pipeline.features.preprocessing import read_unchanged
from pipeline.io.errors import InputError
from pipeline.judging import verdicts
from pipeline.judging.no_change import says_no_change, sentences_of
from pipeline.judging.strict import judge
from pipeline.reporting.dataset_results import Results, ScoredRun
from pipeline.statistics.pair_scores import ScoredPair

LEVELS = 255  # the byte of a map's largest value
PHRASES = {"difference": "the difference"}  # input of the decoder -> its name in sentences
Array = np.ndarray


def embedded(attended: Attended) -> dict[str, Any]:
    """Return a caption's attention for the page's script. Maps are texts in base64; unknown keys are absent.

    - `grid`: rows and columns of the maps
    - `maps`: the maps of the words; the maximum of each map is scaled to 255
    - `peaks`: the maximum of each map before scaling
    - `images`: number of maps per word; absent if it is 1
    - `alignment`: attention from the after image's cells to the before image's
    - `blocks`: maps of the image encoder's blocks
    - `weighed`, `weights`: names of the decoder's inputs, and weights in percent
    """
    height, width = attended.grid
    maps = attended.maps.reshape(-1, height * width).astype(np.float32)
    encoded: dict[str, Any] = {
        "grid": [height, width],
        "maps": _base64(maps),
        "peaks": [round(float(peak), 4) for peak in maps.max(1)],
    }
    if attended.images != 1:
        encoded["images"] = attended.images
    if attended.alignment is not None:
        encoded["alignment"] = _base64(attended.alignment.astype(np.float32))
    if attended.blocks is not None:
        both_images = np.stack(list(attended.blocks.values())).astype(np.float32)  # (K, 2, H, W)
        encoded["blocks"] = _base64(both_images.reshape(-1, height * width))
    if attended.weights is not None:
        encoded |= {"weighed": phrases(attended), "weights": percents(attended)}
    return encoded


def phrases(attended: Attended) -> list[str]:
    return [PHRASES.get(name, name) for name in attended.weighed]


def percents(attended: Attended) -> list[list[int]]:
    """Return each word's weights of the inputs `attended.weighed` in percent; [] without weights."""
    if attended.weights is None:
        return []
    return np.rint(100 * attended.weights.astype(np.float32)).astype(int).tolist()


def quantised(rows: Array) -> Array:
    """Return `rows`, (..., N), as uint8. Each row of N values is scaled, so that its maximum is LEVELS."""
    largest = rows.max(-1, keepdims=True)
    scaled = np.divide(rows, largest, np.zeros_like(rows), where=largest > 0)
    return np.rint(LEVELS * scaled).astype(np.uint8)


def _base64(rows: Array) -> str:
    return base64.b64encode(quantised(rows).tobytes()).decode()


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


def gallery(results: Results, params: Params) -> dict[str, Any]:
    """Return the cards of the pairs in `results.gallery`, by first-seed runs, and the data of the filters."""
    runs = [run for run in results.runs if run.seed == params.seeds[0]]
    own = sentences_of(results.test)
    scores = [score for run in runs for score in run.scores.values()]
    all_attended = [attended for run in runs for attended in run.attended.values()]
    pairs_by_kind = {KINDS.get(kind, str(kind)): (kind, pairs) for kind, pairs in results.gallery.items()}

    def models_with(field: str) -> list[str]:
        return [
            run.model
            for run in runs
            if any(getattr(attended, field) is not None for attended in run.attended.values())
        ]

    return {
        "cards": [
            _card(pair, name, results, runs, own)
            for name, (_, pairs) in pairs_by_kind.items()
            for pair in pairs
        ],
        "kinds": {  # kind of change -> number of shown pairs, number of test pairs
            name: (len(pairs), sum(pair.change_type == kind for pair in results.test))
            for name, (kind, pairs) in pairs_by_kind.items()
        },
        # models whose captions are known to be right or wrong
        "judged": [
            run.model for run in runs if any(score.right is not None for score in run.scores.values())
        ],
        "checked": any(_is_true(score) is not None for score in scores),  # the truth of a caption is known
        "aligned": models_with("alignment"),  # models with cross-view attention
        # rows, columns of maps
        "grids": list(dict.fromkeys(attended.grid for attended in all_attended if attended.images)),
        "encoded": models_with("blocks"),
        "weighed": _weighed(runs),
    }


def _weighed(runs: Sequence[ScoredRun]) -> dict[tuple[str, ...], list[str]]:
    """Return names of inputs -> models whose decoders give weights to these inputs."""
    models_by_inputs: dict[tuple[str, ...], list[str]] = {}
    for run in runs:
        inputs_of_pairs = [tuple(phrases(attended)) for attended in run.attended.values()]
        for inputs in dict.fromkeys(inputs_of_pairs):
            if inputs:
                models_by_inputs.setdefault(inputs, []).append(run.model)
    return models_by_inputs


def _card(
    pair: Pair, kind: str, results: Results, runs: Sequence[ScoredRun], own: Collection[str]
) -> dict[str, Any]:
    """Return the data of a pair's card; `kind`: shown change type, `own`: sentences of no change."""
    predictions = [_prediction(pair, run, own) for run in runs]
    maps = {run.model: embedded(run.attended[pair.pair_id]) for run in runs}

    def models_with(verdict: str, value: bool) -> str:
        return " ".join(prediction["model"] for prediction in predictions if prediction[verdict] is value)

    return {
        "pair": pair,
        "kind": kind,
        "before": embedded_image(results, pair.before),
        "after": embedded_image(results, pair.after),
        "predictions": predictions,
        "right": models_with("right", True),
        "wrong": models_with("right", False),
        "true": models_with("true", True),
        "untrue": models_with("true", False),
        "maps": script(maps),
    }


def embedded_image(results: Results, name: str) -> EmbeddedImage:
    """Return an image of the dataset, whose file has the hash in the index, scaled down."""
    if name not in results.images:
        raise InputError(f"{name} is not in the index of {results.dataset}'s images; {PREPARE_AGAIN}")
    data = read_unchanged(results.root, results.images[name])
    thumbnail = decode(data, str(results.root / name))
    original = thumbnail.size
    thumbnail.thumbnail((SIDE, SIDE))
    buffer = io.BytesIO()
    thumbnail.save(buffer, "JPEG", quality=QUALITY, optimize=True)
    encoded = base64.b64encode(buffer.getvalue()).decode()
    return EmbeddedImage(f"data:image/jpeg;base64,{encoded}", *thumbnail.size, original)


def _prediction(pair: Pair, run: ScoredRun, own: Collection[str]) -> dict[str, Any]:
    """Return a model's caption of a pair, and the verdict on the caption, for the page.

    `right` is about change or no change. `true` is by the pair's scene, or else by the references. They are
    None if unknown. `own` has the dataset's sentences of no change.
    """
    caption, score = run.captions[pair.pair_id], run.scores[pair.pair_id]
    attended = run.attended[pair.pair_id]
    verdict = judge(caption, pair)
    wrong = () if verdict is None else verdict.wrong
    return {
        "model": run.model,
        "words": caption.split(),
        "cider_d": f"{100 * score.cider_d:.1f}",
        "says": "no change" if says_no_change(caption, own) else "change",
        "right": score.right,
        "true": _is_true(score),
        "judged": _verdict_text(score, wrong),
        "wrong": verdicts.marks(caption.split(), wrong),  # for each word, True if it is wrong
        "blocks": list(attended.blocks or ()),  # blocks of the image encoder whose maps are shown
        "weights": percents(attended),
    }


def _is_true(score: ScoredPair) -> bool | None:
    return score.agrees if score.true is None else score.true


def _verdict_text(score: ScoredPair, wrong: Sequence[str]) -> str:
    """Return the verdict by truth, or else by the references, with the `wrong` words; "" if unknown."""
    if score.true is not None:
        wrong_words = verdicts.quoted(wrong)
        return "true" if score.true else f"not true: {wrong_words}" if wrong_words else "not true"
    if score.agrees is not None:
        return "agrees with the references" if score.agrees else "does not agree with the references"
    return ""


def script(value: Any) -> Markup:
    """Return `value` as JSON for a script element of the page. Texts in `value` cannot end the element."""
    return Markup(json.dumps(value, separators=(",", ":")).replace("<", "\\u003c"))
