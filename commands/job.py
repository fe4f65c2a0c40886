"""Run one job of commands.study or commands.parts (pipeline/study/job.py)."""

import argparse

from commands import run
from pipeline.cli.arguments import parsed, word
from pipeline.study.job import Job


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("place", type=word, help="folder of the job's log and state")
    parser.add_argument("folder", type=word, help="folder in which the command starts")
    parser.add_argument("command", type=word)
    arguments = parsed(parser)
    Job(arguments.place, arguments.folder, arguments.command)()


if __name__ == "__main__":
    run(main)
