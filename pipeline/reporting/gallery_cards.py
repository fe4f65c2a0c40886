"""The gallery's cards: a pair's pictures, its references, and what every model says of it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from pipeline.datasets.schema import NO_CHANGE, Pair
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.reporting import attention_images
from pipeline.reporting.dataset_results import Cell, Results, Told
from pipeline.reporting.gallery import Picture, picture
from pipeline.reporting.retrieval_results import Example
from pipeline.scoring import truth
from pipeline.scoring.accuracy import says_no_change

KINDS = {NO_CHANGE: "no change", None: "kind of change unknown"}


@dataclass(frozen=True)
class Prediction:
    """What a model says of a shown pair."""

    model: str
    words: list[str]
    cider_d: str  # x 100
    says: str  # "change" or "no change"
    right: bool | None  # on that; None where the truth is unknown
    true: bool | None  # by the scene, or by the references; None where neither is known
    judged: str  # that in words, with the words that are wrong; "" where it is not known
    wrong: list[bool]  # of each word
    blocks: list[str]  # of the image encoder, whose maps are shown


@dataclass(frozen=True)
class Card:
    """A pair of the gallery."""

    pair: Pair
    kind: str
    before: Picture
    after: Picture
    predictions: list[Prediction]
    maps: Markup  # JSON that the page's script reads

    def told(self, right: bool) -> str:
        """The models that are right, or wrong, on change or no change."""
        return " ".join(each.model for each in self.predictions if each.right is right)

    def truthful(self, true: bool) -> str:
        """The models whose caption is true, or not."""
        return " ".join(each.model for each in self.predictions if each.true is true)


@dataclass(frozen=True)
class Gallery:
    """A dataset's cards, and what they can be chosen by."""

    cards: list[Card]
    kinds: dict[str, tuple[int, int]]  # -> how many are shown, of how many
    judged: list[str]  # models whose captions are known to be right or wrong
    checked: bool  # whether it is known of captions that they are true
    aligned: list[str]  # models with cross-view attention
    grids: list[list[int]]  # rows and columns of attention maps, each once
    cells: list[int] | None  # of an alignment, where it is coarser than that
    encoded: list[str]  # models whose image encoder's maps are shown


def gallery(results: Results, params: Params) -> Gallery:
    """The pairs that `results` chose. Raises InputError where a picture is not the one that was prepared."""
    own = [cell for cell in results.cells if cell.seed == params.seeds[0]]
    factor = attention_images.coarsening(each for cell in own for each in cell.attended.values())
    cards = [
        _card(pair, KINDS.get(kind, str(kind)), results, own, params, factor)
        for kind, pairs in results.gallery.items()
        for pair in pairs
    ]
    grids = dict.fromkeys(e.grid for cell in own for e in cell.attended.values() if e.images)
    aligned = next((e.grid for c in own for e in c.attended.values() if e.alignment is not None), ())
    return Gallery(
        cards,
        {
            KINDS.get(kind, str(kind)): (len(pairs), sum(pair.change_type == kind for pair in results.test))
            for kind, pairs in results.gallery.items()
        },
        [cell.model for cell in own if any(told.right is not None for told in cell.told.values())],
        any(_true(told) is not None for cell in own for told in cell.told.values()),
        [cell.model for cell in own if any(e.alignment is not None for e in cell.attended.values())],
        [list(grid) for grid in grids],
        [side // factor for side in aligned] if factor > 1 else None,
        [cell.model for cell in own if any(e.blocks for e in cell.attended.values())],
    )


def _card(
    pair: Pair, kind: str, results: Results, cells: Sequence[Cell], params: Params, factor: int
) -> Card:
    embedded = {cell.model: attention_images.embedded(cell.attended[pair.pair_id], factor) for cell in cells}
    return Card(
        pair,
        kind,
        _picture(pair.before, results),
        _picture(pair.after, results),
        [_prediction(pair, cell, params.score.no_change_phrases) for cell in cells],
        script(embedded),
    )


@dataclass(frozen=True)
class Shown:
    """A pair with its pictures."""

    pair_id: str
    before: Picture
    after: Picture


@dataclass(frozen=True)
class Search:
    """A sentence, and the pairs that were found by it."""

    sentence: str
    pair: str  # its own
    found: list[Shown]


def searches(results: Results, examples: Sequence[Example]) -> list[Search]:
    """The examples of retrieval with their pictures. Raises InputError for a pair that is not of the test."""
    pairs = {pair.pair_id: pair for pair in results.test}
    if strange := [name for each in examples for name in each.found if name not in pairs]:
        raise InputError(
            f"retrieval.json names {strange[0]}, which is no test pair; run `dvc repro retrieve`"
        )
    return [
        Search(each.sentence, each.pair, [_shown(pairs[name], results) for name in each.found])
        for each in examples
    ]


def _shown(pair: Pair, results: Results) -> Shown:
    return Shown(pair.pair_id, _picture(pair.before, results), _picture(pair.after, results))


def _picture(name: str, results: Results) -> Picture:
    if name not in results.images:
        raise InputError(f"{name} is not in the index of {results.dataset}'s images; run `dvc repro`")
    return picture(results.root, results.images[name])


def _prediction(pair: Pair, cell: Cell, phrases: Sequence[str]) -> Prediction:
    caption, told = cell.captions[pair.pair_id], cell.told[pair.pair_id]
    verdict = truth.judge(caption, pair)
    wrong = None if verdict is None else verdict.wrong
    return Prediction(
        cell.model,
        caption.split(),
        f"{100 * told.cider_d:.1f}",
        "no change" if says_no_change(caption, phrases) else "change",
        told.right,
        _true(told),
        _judged(told, wrong),
        truth.marks(caption.split(), wrong),
        list(cell.attended[pair.pair_id].blocks or ()),
    )


def _true(told: Told) -> bool | None:
    return told.agrees if told.true is None else told.true


def _judged(told: Told, wrong: str | None) -> str:
    if told.true is not None:
        return "true" if told.true else f"not true: “{wrong}”" if wrong else "not true"
    if told.agrees is not None:
        return "agrees with the references" if told.agrees else "does not agree with the references"
    return ""


def script(value: Any) -> Markup:
    """JSON for a script element, which no value can close."""
    return Markup(json.dumps(value, separators=(",", ":")).replace("<", "\\u003c"))
