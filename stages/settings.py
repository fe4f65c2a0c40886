"""settings@dataset: what a dataset's entry in params.yaml amounts to, for DVC to compare: `like` resolved."""

import argparse

from pipeline import params
from pipeline.dataset_params import Dataset
from pipeline.outputs import Contents, replacing, yaml_of
from stages import run

CONTENTS = Contents("prepare.yaml", tuple(f"{name}.yaml" for name in Dataset.model_fields))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", required=True, help="its name under 'dataset' in params.yaml")
    parser.add_argument("--out", type=CONTENTS.to_write, required=True, help="the folder to write")
    arguments = parser.parse_args()
    sections = params.load().of(arguments.dataset).model_dump()
    with replacing(arguments.out, CONTENTS) as folder:
        folder.mkdir()
        for name, section in sections.items():
            text = yaml_of(section)
            (folder / f"{name}.yaml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    run(main)
