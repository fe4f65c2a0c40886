"""report: make one self-contained page with score tables, learning curves and a gallery of the runs.

python -m stages.report --out FOLDER    write index.html, scores.csv, and the tables of `dvc plots show`
python -m stages.report --show          print the score table of the written report
"""

from pathlib import Path

from pipeline.cli.arguments import new_parser, parsed, to_read
from pipeline.config import params
from pipeline.io.errors import printable
from pipeline.io.outputs import Contents, replacing, write_json, write_text
from pipeline.reporting import dataset_results, dvc_plots, overview_table, tables
from stages import run

PAGE = "index.html"
CONTENTS = Contents("report")
FOLDER = Path("results/report")


def main() -> None:
    parser = new_parser("python -m stages.report", __doc__)
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--out", type=CONTENTS.to_write, help=f"(default: {FOLDER})")
    only = "only print the score table in FOLDER"
    either.add_argument("--show", type=to_read, nargs="?", const=FOLDER, metavar="FOLDER", help=only)
    arguments = parsed(parser)
    if arguments.show is None:
        write(arguments.out or FOLDER)
    else:
        show(arguments.show)


def write(out: Path) -> None:
    """Read every run that params.yaml lists. Write the page, its scores, and the tables for DVC's plots."""
    CONTENTS.check(out)
    # imported late: --show does not need the plotting library and its font cache
    from pipeline.reporting import page

    everything = params.load()
    results = dataset_results.read(Path(), everything)
    html = page.render(results, everything)
    with replacing(out, CONTENTS) as folder:
        write_text(folder / PAGE, html)
        write_text(folder / overview_table.SCORES, overview_table.text_of(results))
        notes = {result.dataset: overview_table.notes(result) for result in results}
        write_json(folder / overview_table.NOTES, notes)
        for name, rows in dvc_plots.tables(results).items():
            write_json(folder / name, rows)


def show(out: Path) -> None:
    """Print the score table of each dataset, and the path of the page in the report's folder `out`."""
    all_scores, notes_of = overview_table.read(out)
    for dataset, scores in all_scores.groupby("dataset", sort=False):
        title = f"{dataset}: scores × 100, as papers print them"
        notes = [printable(note) for note in notes_of.get(str(dataset), ())]
        columns = overview_table.columns(scores)
        tables.show([overview_table.table(title, columns, scores, notes, each_seed=True)])
    print(printable(f"with images and curves: {out / PAGE}"))


if __name__ == "__main__":
    run(main)
