"""settings@dataset: what a dataset's entry in params.yaml amounts to, for DVC to compare: `like` resolved."""

import argparse
from pathlib import Path

from pipeline import params
from pipeline.outputs import replacing, yaml_of
from stages import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", required=True, help="its name under 'dataset' in params.yaml")
    parser.add_argument("--out", type=Path, required=True, help="the folder to write, one file a section")
    arguments = parser.parse_args()
    sections = params.load().of(arguments.dataset).model_dump()
    with replacing(arguments.out) as folder:
        folder.mkdir()
        for name, section in sections.items():
            text = yaml_of(section)
            (folder / f"{name}.yaml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    run(main)
