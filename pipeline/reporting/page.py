"""The report's page: one HTML file that holds all it shows, and asks for nothing else."""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from pipeline.datasets.schema import CHANGE_TYPES
from pipeline.params import Params
from pipeline.reporting import bars, curves, overview_table, retrieval_results, tradeoffs
from pipeline.reporting.bars import Group
from pipeline.reporting.dataset_results import Results
from pipeline.reporting.dvc_experiments import Experiment
from pipeline.reporting.gallery_cards import Gallery, Search, gallery, searches
from pipeline.reporting.paper_comparison import Literature, literature
from pipeline.reporting.retrieval_results import RetrievalSection
from pipeline.reporting.significance import Significance, significance
from pipeline.reporting.svg import Panel, Style, styles
from pipeline.scoring.metric_names import ACCURACY, AGREES, CIDER, CORPUS, FITS, METEOR, TRUE
from pipeline.scoring.subsets import QUARTILES, subsets

HERE = Path(__file__).parent
TEMPLATE, SCRIPT = "report.html.j2", "report.js"
PART_METRICS = {  # shown for each part of the split, truth first
    TRUE: "Captions that are true, percent of each part of the test split.",
    FITS: "Captions that fit what changed, be it that they fit other things, too: percent of each part.",
    AGREES: "Captions that agree with a reference, percent of each part of the test split.",
    CIDER: "CIDEr-D × 100 of each part of the test split.",
    METEOR: "METEOR × 100 of each part of the test split.",
}
PARTS = ("change", "no_change", *CHANGE_TYPES, *QUARTILES)
CAPTIONS = ("exact_match", "distinct_captions", "mean_length")
ATTRIBUTES = ("type", "color", "material", "shape", "size")
LOCALISATION = {
    "pointing": "pointing,\nall words",
    "coverage": "coverage,\nall words",
    "pointing_at_object": "pointing,\nthe object",
    "coverage_at_object": "coverage,\nthe object",
}
LIMIT = 15_000_000  # bytes that a page should not exceed


@dataclass(frozen=True)
class Table:
    """A table of scores: a line for each row, a column for each (subset, metric)."""

    caption: str
    headings: list[tuple[str, str]]  # and a note beneath
    columns: list[tuple[str, str]]
    rows: list[overview_table.Row]

    @property
    def seeded(self) -> bool:
        """Whether some row is of one seed alone."""
        return any(row.seed is not None for row in self.rows)


@dataclass(frozen=True)
class Section:
    """All that the page shows of one dataset."""

    name: str
    pairs: int
    scores: Table
    runs: Table | None  # each seed's scores, where there are several
    checked: bool  # whether it is known of captions that they are true
    agreeing: bool  # whether they could be read against the references instead
    judged: bool  # whether captions could be judged on change or no change
    significance: Significance | None
    literature: Literature
    bars: list[Panel]
    details: list[Table]  # the numbers behind the bars, and of the captions
    boxed: bool  # whether it is known where something changed
    constant_caption: str
    scorers: dict[str, str]
    styles: list[Style]
    curves: list[Panel]
    adaptation: list[Panel]
    pretraining: list[Panel]
    tradeoffs: list[Panel]
    gallery: Gallery
    retrieval: RetrievalSection | None
    searches: list[Search]


def render(
    results: Sequence[Results],
    records: Sequence[overview_table.Record],
    params: Params,
    experiments: Sequence[Experiment] = (),
) -> str:
    """The page's HTML. Raises InputError where an image is not the one that was prepared."""
    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,  # a caption may hold anything
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    sections = [
        _section(each, overview_table.rows(records, each.dataset), params, experiments) for each in results
    ]
    script = (HERE / SCRIPT).read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template(TEMPLATE).render(
        params=params, sections=sections, drawing=Markup, script=Markup(script), script_hash=digest
    )


def _section(
    results: Results, rows: list[overview_table.Row], params: Params, experiments: Sequence[Experiment]
) -> Section:
    models = overview_table.of_models(rows)
    ours = [row for row in models if row.model != overview_table.CONSTANT]
    columns = overview_table.columns(rows)
    retrieved = retrieval_results.section(results.retrieval, results.published_retrieval)
    return Section(
        name=results.dataset,
        pairs=len(results.test),
        scores=_scores("Over all test pairs, where no part of them is named. All × 100.", columns, models),
        runs=_scores("Each seed.", columns, rows) if len(params.seeds) > 1 else None,
        checked=overview_table.has(rows, "change", TRUE),
        agreeing=overview_table.has(rows, "change", AGREES),
        judged=overview_table.has(rows, overview_table.TOTAL, ACCURACY),
        significance=significance(results),
        literature=literature(results, ours, params),
        bars=list(_bars(results, models)),
        details=list(_details(results, models)),
        boxed=any(pair.before_box or pair.after_box for pair in results.test),
        constant_caption=results.constant_caption,
        scorers=_scorers(results),
        styles=list(styles(results.cells).values()),
        curves=curves.panels(results),
        adaptation=curves.adaptation(results),
        pretraining=curves.pretraining(results),
        tradeoffs=tradeoffs.panels(results, experiments, params),
        gallery=gallery(results, params),
        retrieval=retrieved,
        searches=searches(results, retrieved.examples) if retrieved else [],
    )


def _scores(caption: str, columns: dict[tuple[str, str], str], rows: list[overview_table.Row]) -> Table:
    return Table(caption, [(heading, "") for heading in columns.values()], list(columns), rows)


def _bars(results: Results, models: list[overview_table.Row]) -> Iterable[Panel]:
    true, agreeing, kinds = (
        [Group(kind.replace("_", " "), (kind, metric)) for kind in ("no_change", *CHANGE_TYPES)]
        for metric in (TRUE, AGREES, CIDER)
    )
    ends = ("q1\nleast", "q2", "q3", "q4\nmost")
    quartiles = [Group(end, (part, CIDER)) for end, part in zip(ends, QUARTILES, strict=True)]
    attributes = [Group(name, ("attributes", name)) for name in ATTRIBUTES]
    places = [Group(label, ("localisation", name)) for name, label in LOCALISATION.items()]
    for title, groups in (
        ("Captions that are true by kind of change, percent", true),
        ("Captions that agree with a reference by kind of change, percent", agreeing),
        ("CIDEr-D × 100 by kind of change", kinds),
        ("CIDEr-D × 100 by how much the two views overlap", quartiles),
        ("Attributes named correctly, percent", attributes),
        ("Attention on what changed, percent", places),
    ):
        if panel := bars.panel(title, results.dataset, groups, models, styles(results.cells)):
            yield panel


def _details(results: Results, models: list[overview_table.Row]) -> Iterable[Table]:
    """Tables of what some model has, and no others."""
    sizes = {name: f"{len(members)} pairs" for name, members in subsets(results.test).items()}
    parts = [part for part in PARTS if overview_table.has(models, part, CORPUS[0])]
    headings = [(part.replace("_", " "), sizes.get(part, "")) for part in parts]
    for metric, caption in PART_METRICS.items():
        columns = [(part, metric) for part in parts]
        if any(overview_table.has(models, *column) for column in columns):
            yield Table(caption, headings, columns, models)
    total = overview_table.TOTAL
    if captions := [name for name in CAPTIONS if overview_table.has(models, total, name)]:
        own = {(total, name): overview_table.HEADINGS.get(name, name) for name in captions}
        yield _scores("The captions: exact matches in percent, and counts.", own, models)
    for group, names, caption in (
        ("attributes", ATTRIBUTES, "Captions of changes that name it rightly, percent."),
        ("localisation", LOCALISATION, "The decoder’s attention against the change boxes, percent."),
    ):
        if known := [name for name in names if overview_table.has(models, group, name)]:
            headings = [(name.replace("_", " "), "") for name in known]
            yield Table(caption, headings, [(group, name) for name in known], models)


def _scorers(results: Results) -> dict[str, str]:
    """What computed the scores; several values where cells were scored by different programs."""
    found: dict[str, dict[str, None]] = {}
    for metrics in (results.constant, *(cell.metrics for cell in results.cells)):
        for name, value in metrics.scorers.items():
            found.setdefault(name, {})[value] = None
    return {name: " and ".join(values) for name, values in found.items()}
