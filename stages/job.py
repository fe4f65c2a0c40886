"""Run one job of a study, an extraction or a captioning: a folder with its job.json (pipeline/cluster)."""

import argparse
from pathlib import Path

from pipeline.cluster import job
from stages import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="that has its job.json")
    job.read(parser.parse_args().folder)()


if __name__ == "__main__":
    run(main)
