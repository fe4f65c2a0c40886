"""Write the page of results and its figures from the records of studies' cells (results/records).

python -m stages.results            # in the repository's root; git then shows what is new
"""

import argparse
from pathlib import Path

from pipeline import params
from pipeline.outputs import write_text
from pipeline.studying import readings, record_comparisons, records, results_figures, results_page
from stages import run


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m stages.results", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("docs"), help="the folder of the page")
    folder = parser.parse_args().out
    for dataset in params.load().tabletop.viewpoint:
        for group in record_comparisons.read(Path(), dataset):
            records.check(Path(), group.records)
    write(folder)


def write(folder: Path) -> None:
    """Write the page and its figures."""
    settings = params.load()
    found = [record_comparisons.read(Path(), dataset) for dataset in settings.tabletop.viewpoint]
    models = sorted({group.model for groups in found for group in groups if not group.changes})
    said = readings.read(readings.FILE, models)
    figures = results_figures.write(folder, found, settings)
    write_text(f"{folder}/results.md", results_page.page(found, figures, settings, said))
    print(f"{folder}/results.md: {sum(len(g.records) for groups in found for g in groups)} cells")


if __name__ == "__main__":
    run(main)
