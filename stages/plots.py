"""plots: gather the cells' learning curves and scores by type of change, for `dvc plots show`."""

import argparse
from pathlib import Path

from pipeline import params
from pipeline.outputs import replacing, write_json
from pipeline.reporting import dvc_plots
from stages import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=dvc_plots.CONTENTS.to_write, required=True, help="the folder to write")
    arguments = parser.parse_args()
    found = dvc_plots.tables(Path("results"), params.load())
    with replacing(arguments.out, dvc_plots.CONTENTS) as beside:
        for name, rows in found.items():
            write_json(beside / name, rows)


if __name__ == "__main__":
    run(main)
