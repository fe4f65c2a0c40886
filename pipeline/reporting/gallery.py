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
class Picture:
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
    before: Picture
    after: Picture
    predictions: list[Prediction]
    maps: Markup  # JSON that the page's script reads

    def right_or_wrong(self, right: bool) -> str:
        """Return the models that are right about change or no change; those that are wrong if not `right`."""
        return " ".join(each.model for each in self.predictions if each.right is right)

    def true_or_false(self, true: bool) -> str:
        """Return the models whose caption is true; those whose caption is false if not `true`."""
        return " ".join(each.model for each in self.predictions if each.true is true)


def gallery(results: Results, params: Params) -> dict[str, Any]:
    """Return the cards of the pairs in `results.gallery`, and the data for the page's filters."""
    own = [run for run in results.runs if run.seed == params.seeds[0]]
    attended = {run.model: list(run.attended.values()) for run in own}
    every = [one for each in attended.values() for one in each]
    named = {KINDS.get(kind, str(kind)): (kind, pairs) for kind, pairs in results.gallery.items()}
    return {
        "cards": [
            _card(pair, name, results, own, params) for name, (_, pairs) in named.items() for pair in pairs
        ],
        "kinds": {  # kind of change -> number of shown pairs, number of test pairs
            name: (len(pairs), sum(pair.change_type == kind for pair in results.test))
            for name, (kind, pairs) in named.items()
        },
        # models whose captions are known to be right or wrong; True if the truth of any caption is known
        "judged": [run.model for run in own if any(score.right is not None for score in run.scores.values())],
        "checked": any(_true(score) is not None for run in own for score in run.scores.values()),
        # models with cross-view attention
        "aligned": [
            model for model, each in attended.items() if any(one.alignment is not None for one in each)
        ],
        "grids": list(dict.fromkeys(one.grid for one in every if one.images)),  # rows, columns of maps
        "encoded": [model for model, each in attended.items() if any(one.blocks for one in each)],
        "weighed": _weighed(attended),
    }


def _weighed(attended: Mapping[str, Sequence[Attended]]) -> dict[tuple[str, ...], list[str]]:
    """Return names of weighted decoder inputs -> models whose decoders give weights to these inputs."""
    found: dict[tuple[str, ...], list[str]] = {}
    for model, each in attended.items():
        for names in dict.fromkeys(tuple(attention_images.phrases(one)) for one in each if one.weighed):
            found.setdefault(names, []).append(model)
    return found


def _card(pair: Pair, kind: str, results: Results, runs: Sequence[ScoredRun], params: Params) -> Card:
    embedded = {run.model: attention_images.embedded(run.attended[pair.pair_id]) for run in runs}
    predictions = [_prediction(pair, run, params.score.no_change_phrases) for run in runs]
    before, after = picture(results, pair.before), picture(results, pair.after)
    return Card(pair, kind, before, after, predictions, script(embedded))


def picture(results: Results, name: str) -> Picture:
    """Return an image of the dataset, scaled down. Raises InputError if the file has changed."""
    if name not in results.images:
        raise InputError(f"{name} is not in the index of {results.dataset}'s images; run `dvc repro`")
    path = results.root / name
    data = read_bytes(path)
    if hashlib.sha256(data).hexdigest() != results.images[name].sha256:
        raise InputError(f"{path} has changed since the dataset was prepared; run `dvc repro`")
    small = decode(data, str(path))
    original = small.size
    small.thumbnail((SIDE, SIDE))
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=QUALITY, optimize=True)
    coded = base64.b64encode(buffer.getvalue()).decode()
    return Picture(f"data:image/jpeg;base64,{coded}", *small.size, original)


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
        _true(score),
        _judged(score, wrong),
        truth.marks(caption.split(), wrong),
        list(attended.blocks or ()),
        attention_images.percents(attended),
    )


def _true(score: ScoredPair) -> bool | None:
    return score.agrees if score.true is None else score.true


def _judged(score: ScoredPair, wrong: Sequence[str]) -> str:
    if score.true is not None:
        said = truth.quoted(wrong)
        return "true" if score.true else f"not true: {said}" if said else "not true"
    if score.agrees is not None:
        return "agrees with the references" if score.agrees else "does not agree with the references"
    return ""


def script(value: Any) -> Markup:
    """Return `value` as JSON for a script element of the page. Texts in `value` cannot end the element."""
    return Markup(json.dumps(value, separators=(",", ":")).replace("<", "\\u003c"))
