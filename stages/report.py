"""report: score tables, learning curves and a gallery of every listed cell, as one self-contained page.

python -m stages.report --out FOLDER    write index.html, scores.json, and the tables of `dvc plots show`
python -m stages.report --show          print the score table that was written
"""

import argparse
import sys
from pathlib import Path

from pipeline.cli.arguments import parsed, to_read
from pipeline.config import params
from pipeline.io.errors import printable
from pipeline.io.outputs import Contents, replacing, write_json, write_text
from pipeline.reporting import dataset_results, dvc_experiments, dvc_plots, overview_table, tables
from stages import run

PAGE, SCORES = "index.html", "scores.json"
CONTENTS = Contents("report")
FOLDER = Path("results/report")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m stages.report", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--out", type=CONTENTS.to_write, help=f"(default: {FOLDER})")
    either.add_argument(
        "--show",
        type=to_read,
        nargs="?",
        const=FOLDER,
        metavar="FOLDER",
        help="print what was written there, and write nothing",
    )
    arguments = parsed(parser)
    if arguments.show is None:
        write(arguments.out or FOLDER)
    else:
        show(arguments.show)


def write(out: Path) -> None:
    """Read every cell that params.yaml lists; write the page, its scores, and what DVC draws."""
    CONTENTS.check(out)
    # here, and not above: --show needs no drawing library, nor its cache of fonts
    from pipeline.reporting import page

    everything = params.load()
    results = dataset_results.read(Path(), everything)
    records = overview_table.records(results)
    found = dvc_experiments.read(dvc_experiments.FILE)
    html = page.render(results, records, everything, found)
    if (size := len(html.encode())) > page.LIMIT:
        said = f"the page takes {size / 1e6:.1f} MB; a smaller report.gallery in params.yaml makes it smaller"
        print(f"warning: {said}", file=sys.stderr)
    with replacing(out, CONTENTS) as beside:
        write_text(beside / PAGE, html)
        write_json(beside / SCORES, records)
        for name, rows in dvc_plots.tables(results).items():
            write_json(beside / name, rows)


def show(out: Path) -> None:
    """Print the score table of each dataset, and where the page is."""
    records = overview_table.read(out / SCORES)
    for dataset in dict.fromkeys(record["dataset"] for record in records):
        rows = overview_table.rows(records, dataset)
        title = f"{dataset}: scores × 100, as papers print them"
        tables.show([overview_table.table(title, overview_table.columns(rows), rows)])
    print(printable(f"with images and curves: {out / PAGE}"))


if __name__ == "__main__":
    run(main)
