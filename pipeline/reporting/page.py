"""Make the report's page: one self-contained HTML file."""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from pandas import DataFrame

from pipeline.config.params import Params
from pipeline.datasets.schema import CHANGE_TYPES
from pipeline.reporting import curves, figures, overview_table, retrieval_results
from pipeline.reporting.dataset_results import Results
from pipeline.reporting.gallery import gallery
from pipeline.reporting.overview_table import significance, table
from pipeline.reporting.paper_comparison import literature
from pipeline.reporting.score_table import has_score
from pipeline.reporting.tables import Table
from pipeline.scoring.metric_names import (
    ACCURACY,
    AGREES,
    CIDER,
    CORPUS,
    FITS,
    METEOR,
    REVERSED_EXACT,
    TOTAL,
    TRUE,
    heading,
)
from pipeline.scoring.subsets import QUARTILES, subsets

FOLDER = Path(__file__).parent
TEMPLATE, SCRIPT = "report.html.j2", "report.js"
PART_METRICS = {  # metric -> title of its table by subset; truth comes first
    TRUE: "Captions that are true, percent of each part of the test split.",
    FITS: "Captions that are true or only ambiguous, percent of each part of the test split.",
    AGREES: "Captions that agree with a reference, percent of each part of the test split.",
    CIDER: "CIDEr-D × 100 of each part of the test split.",
    REVERSED_EXACT: "Captions that reverse if the images are exchanged (kind, object and values), percent.",
    "reversed_change": "Captions that agree on change or no change if the images are exchanged, percent.",
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


def render(results: Sequence[Results], params: Params) -> str:
    """Return the report page's HTML, with a section for each dataset; images must be as prepared."""
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,  # a caption may contain any text
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    sections = [_section(result, params) for result in results]
    script = (FOLDER / SCRIPT).read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template(TEMPLATE).render(
        params=params,
        sections=sections,
        drawing=Markup,
        script=Markup(script),
        script_hash=digest,
    )


def _section(results: Results, params: Params) -> dict[str, Any]:
    """Return the data of a dataset's section, under the names that report.html.j2 uses."""
    scores = results.scores
    columns = overview_table.columns(scores)
    return {
        "name": results.dataset,
        "pairs": len(results.test),
        "scores": table(
            "Over all test pairs, unless a heading names a subset. All × 100.",
            columns,
            scores,
            overview_table.notes(results),
        ),
        "runs": table("Each seed.", columns, scores, each_seed=True) if len(params.seeds) > 1 else None,
        "checked": has_score(scores, "change", TRUE),  # truth is known
        "agreeing": has_score(scores, "change", AGREES),  # agreement with references is known
        "judged": has_score(scores, TOTAL, ACCURACY),  # change accuracy is known
        "reversed": has_score(scores, "change", REVERSED_EXACT),  # captioned in both orders
        "significance": significance(results),
        "literature": literature(results, params),
        "details": list(_details(results, scores)),
        "boxed": any(pair.before_box or pair.after_box for pair in results.test),
        "constant_caption": results.constant_caption,
        "scorers": _scorers(results),
        "styles": list(figures.styles(run.model for run in results.runs).values()),
        "curves": [
            panel
            for panels in (curves.captioning, curves.adaptation, curves.pretraining)
            for panel in panels(results)
        ],
        "gallery": gallery(results, params),
        "retrieval": retrieval_results.section(results.retrieval, results.published_retrieval),
    }


def _details(results: Results, scores: DataFrame) -> Iterable[Table]:
    sizes = {name: f"{len(members)} pairs" for name, members in subsets(results.test).items()}
    parts = [part for part in PARTS if has_score(scores, part, CORPUS[0])]
    for metric, caption in PART_METRICS.items():
        columns = {
            (part, metric): f"{part.replace('_', ' ')}\n{sizes.get(part, '')}".strip() for part in parts
        }
        if any(has_score(scores, *column) for column in columns):
            yield table(caption, columns, scores)
    for group, names, caption in (
        (TOTAL, CAPTIONS, "The captions: exact matches in percent, and counts."),
        ("attributes", ATTRIBUTES, "Captions of changes that name the attribute correctly, percent."),
        ("localisation", LOCALISATION, "The decoder’s attention against the change boxes, percent."),
    ):
        if present := [name for name in names if has_score(scores, group, name)]:
            named_columns = {(group, name): heading(name).replace("_", " ") for name in present}
            yield table(caption, named_columns, scores)


def _scorers(results: Results) -> dict[str, str]:
    """Return software and conventions -> value in a dataset's scores, values of runs joined by "and"."""
    programs: dict[str, dict[str, None]] = {}
    for metrics in (results.constant, *(run.metrics for run in results.runs)):
        for name, value in metrics.get("scorers", {}).items():
            programs.setdefault(name, {})[str(value)] = None
    return {name: " and ".join(values) for name, values in programs.items()}
