"""Run one job of a study, an extraction or a captioning: a folder with its job.json (pipeline/cluster)."""

import argparse

from pipeline.cluster import job
from stages import run
from stages.arguments import parsed, to_read


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=to_read, help="that has its job.json")
    job.read(parsed(parser).folder)()


if __name__ == "__main__":
    run(main)
