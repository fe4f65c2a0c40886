"""Run one job of a study, an extraction or a captioning: a folder with its job.json (pipeline/study)."""

import argparse

from commands import run
from pipeline.cli.arguments import parsed, to_read
from pipeline.study import job


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=to_read, help="that has its job.json")
    job.read(parsed(parser).folder)()


if __name__ == "__main__":
    run(main)
