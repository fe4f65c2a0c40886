"""Measure what each metric cannot see: its score of captions with one mistake, and of true captions reworded.

python -m commands.sensitivity --pairs data/pairs/tabletop.jsonl --figure matrix.svg
python -m commands.sensitivity --layout spot_the_diff data/raw/spot_the_diff
python -m commands.sensitivity --pairs PAIRS --write captions.jsonl      captions for other programs to score
python -m commands.sensitivity --pairs PAIRS --scores LLM scores.jsonl   with the scores of such a program
python -m commands.sensitivity --fill                                    fill the tables of the documentation

A caption is compared with an edited caption of the same pair, against the same references. If the dataset has
no grammar, words are exchanged by a small table. One sentence per metric says what it does not see. Results:
docs/evaluation.md, "What each metric cannot see".
"""

from argparse import Namespace
from functools import partial
from pathlib import Path

import numpy as np

from commands import run
from pipeline.cli import pair_sources
from pipeline.cli.arguments import new_parser, parsed, real, whole, word
from pipeline.io.errors import InputError, printable
from pipeline.io.outputs import file_to_write, write_json, write_json_lines, write_text
from pipeline.io.records import read_record
from pipeline.reporting.figures import svg_file
from pipeline.reporting.tables import show
from pipeline.results import pages
from pipeline.sensitivity import caption_metrics, edited_captions, figure, matrix
from pipeline.sensitivity.edited_captions import AGAINST, EditedCaptions
from pipeline.sensitivity.matrix import Matrix

RESULTS = Path("results/sensitivity")
PAGE = Path("docs/evaluation.md")
REMEDY = "write it with python -m commands.sensitivity --out"
KEPT = "share of its score that a metric keeps (the right caption's score is 1)"
BELOW = "how often the edited caption scores below the right one (1: always; equal scores count half)"


def main() -> None:
    parser = new_parser("python -m commands.sensitivity", __doc__)
    add, source = parser.add_argument, parser.add_mutually_exclusive_group(required=True)
    pair_sources.add(parser, source)
    source.add_argument(
        "--fill", action="store_true", help=f"fill {PAGE} from {RESULTS}, and do nothing else"
    )
    add("--scenes", type=whole(1, 1_000_000), default=1000, help="scenes to draw from the pairs (1000)")
    references = "score against the other references of a pair (default), or against the right caption itself"
    add("--against", choices=AGAINST, default="others", help=references)
    add("--scores", type=word, nargs=2, action="append", default=[], metavar=("NAME", "FILE"))
    add("--key", type=word, help="key or column of these scores, if there are several (such as score)")
    add("--without-spice", action="store_true", help="leave out SPICE, which takes minutes")
    add("--timeout", type=real(1.0, 1_000_000.0), default=3600.0, help="seconds for a run of Java (3600)")
    add("--write", type=file_to_write, help="JSON lines to write: id, caption and references of each caption")
    add("--out", type=file_to_write, help="the matrix to write, JSON")
    add("--figure", type=file_to_write, help="an SVG file to write: the matrix of kept shares")
    arguments = parsed(parser)
    if arguments.fill:
        fill()
        return
    name, pairs = pair_sources.read(arguments)
    captions = edited_captions.of_pairs(pairs, arguments.scenes, arguments.against)
    if arguments.write:
        write_json_lines(arguments.write, edited_captions.lines(captions))
        print(f"{len(captions.scored):,} captions in {arguments.write}; score each, and use --scores")
        return
    result = matrix.of_scores(name, arguments.against, captions, _scores(captions, arguments))
    if arguments.out:
        write_json(arguments.out, result.model_dump())
    if arguments.figure:
        write_text(arguments.figure, svg_file(partial(figure.draw, result), figure.size(result)))
    _show(result)


def _scores(captions: EditedCaptions, arguments: Namespace) -> dict[str, np.ndarray]:
    outside = {
        name: caption_metrics.of_file(captions, Path(file), arguments.key) for name, file in arguments.scores
    }
    scores, reason = caption_metrics.scores(captions, arguments.timeout, not arguments.without_spice)
    if reason is not None:
        print(printable(f"SPICE: {reason}"))
    if repeated := next((name for name in outside if name in scores), None):
        raise InputError(f"--scores {repeated}: the matrix has a metric of this name; choose another name")
    return scores | outside


def _show(result: Matrix) -> None:
    print(f"{result.dataset}: {result.captions:,} captions of {result.scenes:,} scenes")
    for name, title in (("kept", KEPT), ("below", BELOW)):
        print(f"\n{title}")
        show(matrix.table(result, name, wrong) for wrong in (True, False))
    show(matrix.kinds_table(result, metric) for metric in result.metrics if result.kinds)
    print()
    for sentence in matrix.sentences(result):
        print(printable(sentence))


def fill(folder: Path = RESULTS, page: Path = PAGE) -> None:
    """Fill the tables of a page from the matrices in a folder, and draw its figures next to the page.

    A file tabletop.json fills the blocks "tabletop kept wrong", "tabletop below right", "tabletop of METEOR",
    "tabletop kinds METEOR" and so on. It draws sensitivity-tabletop.svg, if the page shows it.
    """
    tables = {}
    for path in sorted(folder.glob("*.json")):
        result = read_record(path, Matrix, REMEDY)
        for name in ("kept", "below"):
            for wrong, part in ((True, "wrong"), (False, "right")):
                tables[f"{path.stem} {name} {part}"] = matrix.table(result, name, wrong)
        for metric in result.metrics:
            tables[f"{path.stem} of {metric}"] = matrix.metric_table(result, metric)
            tables[f"{path.stem} kinds {metric}"] = matrix.kinds_table(result, metric)
        drawing = f"sensitivity-{path.stem}.svg"
        if drawing in page.read_text(encoding="utf-8"):
            write_text(page.parent / drawing, svg_file(partial(figure.draw, result), figure.size(result)))
    if not tables:
        raise InputError(f"{folder} has no matrix; {REMEDY}")
    write_text(page, pages.filled(page, tables))
    print(f"{page}: filled from {folder}")


if __name__ == "__main__":
    run(main)
