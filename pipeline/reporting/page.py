"""The report's page: one HTML file that holds all it shows, and asks for nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from pipeline.datasets.schema import NO_CHANGE, Pair
from pipeline.errors import InputError
from pipeline.gallery_pairs import choose
from pipeline.params import Params
from pipeline.reporting import curves, gallery, tables
from pipeline.reporting.cells import Cell, Results
from pipeline.scoring.accuracy import says_no_change
from pipeline.scoring.subsets import subsets

TEMPLATE = "report.html.j2"
PART_METRICS = ("CIDEr-D", "METEOR")  # shown for each part of the split
KINDS = {NO_CHANGE: "no change", None: "kind of change unknown"}


@dataclass(frozen=True)
class Table:
    """A table of scores x 100: a line for each row, a column for each (subset, metric)."""

    caption: str
    headings: list[tuple[str, str]]  # and a note beneath
    columns: list[tuple[str, str]]
    rows: list[tables.Row]


@dataclass(frozen=True)
class Prediction:
    """What a model says of a shown pair."""

    model: str
    caption: str
    cider_d: str  # x 100
    says: str  # "change" or "no change"
    right: bool | None  # on that; None where the truth is unknown


@dataclass(frozen=True)
class Shown:
    """A pair of the gallery."""

    pair: Pair
    before: gallery.Picture
    after: gallery.Picture
    predictions: list[Prediction]


@dataclass(frozen=True)
class Kind:
    """The gallery's pairs of one change type."""

    name: str
    of: int  # test pairs of that type
    shown: list[Shown]


@dataclass(frozen=True)
class Section:
    """All that the page shows of one dataset."""

    name: str
    pairs: int
    scores: Table
    by_kind: list[Table]  # one a metric; none where the kinds are unknown
    judged: bool  # whether captions could be judged on change or no change
    boxed: bool  # whether it is known where something changed
    constant_caption: str
    scorers: dict[str, str]
    styles: list[curves.Style]
    panels: list[curves.Panel]
    gallery: list[Kind]


def render(results: Sequence[Results], records: Sequence[tables.Record], params: Params) -> str:
    """The page's HTML. Raises InputError where an image is not the one that was prepared."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,  # a caption may hold anything
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    sections = [_section(each, tables.rows(records, each.dataset), params) for each in results]
    return environment.get_template(TEMPLATE).render(params=params, sections=sections, drawing=Markup)


def _section(results: Results, rows: list[tables.Row], params: Params) -> Section:
    parts = {name: len(members) for name, members in subsets(results.test).items()}
    judged = any((tables.TOTAL, tables.ACCURACY) in row.scores for row in rows)
    return Section(
        name=results.dataset,
        pairs=len(results.test),
        scores=_scores(rows, judged),
        by_kind=[_by_kind(rows, metric, parts) for metric in PART_METRICS if parts],
        judged=judged,
        boxed=any(pair.before_box or pair.after_box for pair in results.test),
        constant_caption=results.constant_caption,
        scorers=_scorers(results),
        styles=list(curves.styles(results.cells).values()),
        panels=curves.panels(results),
        gallery=_gallery(results, params),
    )


def _scores(rows: list[tables.Row], judged: bool) -> Table:
    metrics = tables.COLUMNS if judged else tables.CORPUS_METRICS
    return Table(
        "Over all test pairs. Every score × 100, as papers print them.",
        [(tables.HEADINGS.get(metric, metric), "") for metric in metrics],
        [(tables.TOTAL, metric) for metric in metrics],
        rows,
    )


def _by_kind(rows: list[tables.Row], metric: str, parts: dict[str, int]) -> Table:
    return Table(
        f"{metric} × 100 of each part of the test split.",
        [(part.replace("_", " "), f"{pairs} pairs") for part, pairs in parts.items()],
        [(part, metric) for part in parts],
        rows,
    )


def _scorers(results: Results) -> dict[str, str]:
    """What computed the scores; several values where cells were scored by different programs."""
    found: dict[str, dict[str, None]] = {}
    for metrics in (results.constant, *(cell.metrics for cell in results.cells)):
        for name, value in metrics.scorers.items():
            found.setdefault(name, {})[value] = None
    return {name: " and ".join(values) for name, values in found.items()}


def _gallery(results: Results, params: Params) -> list[Kind]:
    cells = [cell for cell in results.cells if cell.seed == params.seeds[0]]
    phrases = params.score.no_change_phrases
    return [
        Kind(
            KINDS.get(kind, str(kind)),
            sum(pair.change_type == kind for pair in results.test),
            [_shown(pair, results, cells, phrases) for pair in chosen],
        )
        for kind, chosen in choose(results.test, params.report.gallery).items()
    ]


def _shown(pair: Pair, results: Results, cells: Sequence[Cell], phrases: Sequence[str]) -> Shown:
    before, after = (_picture(name, results) for name in (pair.before, pair.after))
    return Shown(pair, before, after, [_prediction(pair, cell, phrases) for cell in cells])


def _picture(name: str, results: Results) -> gallery.Picture:
    if name not in results.images:
        raise InputError(f"{name} is not in the index of {results.dataset}'s images; run `dvc repro`")
    return gallery.picture(results.root, results.images[name])


def _prediction(pair: Pair, cell: Cell, phrases: Sequence[str]) -> Prediction:
    caption = cell.captions[pair.pair_id]
    changed = not says_no_change(caption, phrases)
    return Prediction(
        cell.model,
        caption,
        f"{100 * cell.cider_d[pair.pair_id]:.1f}",
        "change" if changed else "no change",
        None if pair.changed is None else changed == pair.changed,
    )
