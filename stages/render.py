"""render@dataset: render a dataset with the settings and the seed in params.yaml."""

from pathlib import Path

import stages
from pipeline.cli.arguments import new_parser, parsed, to_read, word
from pipeline.compute import worker_processes
from pipeline.config import params
from pipeline.io.outputs import file_to_write
from pipeline.tabletop import dataset, dataset_card


def main() -> None:
    parser = new_parser("python -m stages.render", __doc__)
    add = parser.add_argument
    add("--dataset", type=word, required=True, help="its name under 'tabletop.viewpoint' in params.yaml")
    add("--out", type=dataset.CONTENTS.to_write, required=True, help="the folder to write")
    add("--card", type=file_to_write, required=True, help="the dataset card to write")
    add("--params", type=to_read, default=Path("params.yaml"))
    arguments = parsed(parser)
    settings = params.load(arguments.params).tabletop.of(arguments.dataset)
    dataset.render(settings, arguments.out, worker_processes.cores())
    notes = dataset_card.facts(arguments.out, settings)
    dataset_card.write_card(arguments.card, arguments.out, arguments.dataset, notes)


if __name__ == "__main__":
    stages.run(main)
