"""Print the settings of a run's training. For each setting, print the layer that its value comes from.

python -m commands.show_settings tabletop scorer_cbr
"""

import json
from pathlib import Path

from commands import run
from pipeline.cli.arguments import new_parser, parsed, word
from pipeline.config import origins, params, resolving


def main() -> None:
    parser = new_parser("python -m commands.show_settings", __doc__)
    add = parser.add_argument
    add("dataset", type=word, help="a dataset of params.yaml or datasets.yaml")
    add("model", type=word, help="a model, such as scorer_cbr")
    arguments = parsed(parser)
    path = Path("params.yaml")
    recipe = resolving.resolve(params.load(path), arguments.dataset, arguments.model)
    rows = [(key, json.dumps(value), origin) for key, value, origin in origins.settings(path, recipe)]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    for key, value, origin in rows:
        print(f"{key:<{widths[0]}}  {value:<{widths[1]}}  {origin}")


if __name__ == "__main__":
    run(main)
