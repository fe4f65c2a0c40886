"""Stage `render`: the embedded dataset `tabletop`, made on this machine from params.yaml's seed."""

import argparse
import os
from pathlib import Path

import stages
from pipeline import params
from pipeline.tabletop import dataset, dataset_card


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("data/raw/tabletop"))
    parser.add_argument("--card", type=Path, default=Path("data/cards/tabletop.yaml"))
    parser.add_argument("--params", type=Path, default=Path("params.yaml"))
    arguments = parser.parse_args()
    dataset.render(params.load(arguments.params).tabletop, arguments.out, cores())
    dataset_card.write_card(arguments.card, arguments.out)


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "process_cpu_count"):  # Python 3.13
        return os.process_cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


if __name__ == "__main__":
    stages.run(main)
