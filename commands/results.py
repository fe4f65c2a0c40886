"""Fill the tables of the results pages and draw their figures, from the records of finished runs.

python -m commands.results          the pages in docs, from the published records (results/records)
python -m commands.results --own    a page in results/own, from your own records, and the published records
                                    of the same params.yaml and data

In the pages in docs, only the blocks between `<!-- table: NAME -->` and `<!-- end -->` change.
"""

from collections.abc import Mapping
from pathlib import Path

from commands import run
from pipeline.cli.arguments import new_parser, parsed
from pipeline.config import params
from pipeline.config.params import read_tree
from pipeline.io.errors import InputError
from pipeline.io.outputs import write_text
from pipeline.results import own_records, pages, record_tables, records, results_figures
from pipeline.results.record_tables import Records
from pipeline.results.results_tables import tables

WRITTEN = (Path("docs/results.md"), Path("docs/results_details.md"))  # hand-written, except for tables
PAGES = tuple(page.name for page in WRITTEN)
DOCS, OWN = WRITTEN[0].parent, records.OWN.parent
OWN_PAGE = """# Own results

The tables and figures of the records in results/own/records, and of the published records that the same
params.yaml and data make. docs/results_details.md says what the columns mean.

`python -m commands.results --own` writes this page. `python -m commands.record --promote` publishes the
records.
"""


def main() -> None:
    parser = new_parser("python -m commands.results", __doc__)
    parser.add_argument("--own", action="store_true", help="write a page of your own records")
    if parsed(parser).own:
        write_own()
        return
    tree = read_tree(Path("params.yaml"))
    for dataset in params.load().tabletop.viewpoint:
        own_records.check(Path(), tree, dataset, record_tables.read(Path(), dataset).runs["record"])
    write()


def write(folder: Path = DOCS) -> None:
    """Fill the results pages from the published records, draw their figures, and write both to `folder`.

    The pages in docs are the templates. If a table has rows, but no page has a block for the table, the
    name of the table is printed.
    """
    settings = params.load()
    datasets = {name: record_tables.read(Path(), name) for name in settings.tabletop.viewpoint}
    named_tables = tables(datasets, settings)
    texts = {name: pages.filled(DOCS / name, named_tables) for name in PAGES}
    results_figures.write(folder, [*datasets.values()], settings)
    for name, text in texts.items():
        write_text(folder / name, text)
    _print(folder, datasets)
    names_on_pages = [name for text in texts.values() for name in pages.blocks(text)]
    if missing_tables := [
        name for name, table in named_tables.items() if table.rows and name not in names_on_pages
    ]:
        print(f"no page has {', '.join(missing_tables)}; add `{pages.START}NAME -->` and `{pages.END}`")


def write_own() -> None:
    """Write the page of a user's own records in results/own, with its figures.

    Print how many records are left out because they have other settings than params.yaml or other data.
    """
    settings = params.load()
    tree = read_tree(Path("params.yaml"))
    datasets: dict[str, Records] = {}
    left_out: list[Path] = []
    for dataset in settings.tabletop.viewpoint:
        own, other_paths = own_records.read(Path(), tree, dataset)
        datasets |= {dataset: own} if len(own) else {}
        left_out += other_paths
    if left_out:
        print(f"left out: {len(left_out)} own record(s) with other settings or data, such as {left_out[0]}")
    if not datasets:
        raise InputError(f"{records.OWN} has no record for the page; run a study with this params.yaml")
    figures = results_figures.write(OWN, [*datasets.values()], settings)
    sections = [
        f"## {table.title}\n\n{table.markdown}" for table in tables(datasets, settings).values() if table.rows
    ]
    write_text(OWN / PAGES[0], "\n".join([OWN_PAGE, *(f"{figure}\n" for figure in figures), *sections]))
    _print(OWN, datasets)


def _print(folder: Path, datasets: Mapping[str, Records]) -> None:
    runs = sum(map(len, datasets.values()))
    print(f"{folder / PAGES[0]}: {runs} runs")


if __name__ == "__main__":
    run(main)
