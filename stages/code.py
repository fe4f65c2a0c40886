"""code: which source files each stage runs, and their hashes: DVC does not see imports."""

import argparse
from pathlib import Path

from pipeline.cli.arguments import parsed
from pipeline.io import source_code
from pipeline.io.outputs import Contents, replacing, write_json
from stages import run

CONTENTS = Contents("code")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--out", type=CONTENTS.to_write, required=True, help="the folder to write, a file for each stage"
    )
    arguments = parsed(parser)
    names = sorted(path.stem for path in Path("stages").glob("*.py") if path.stem != "__init__")
    found = {name: source_code.of_stage(name, Path()) for name in names}
    with replacing(arguments.out, CONTENTS) as folder:
        folder.mkdir()
        for name, files in found.items():
            write_json(folder / f"{name}.json", files)


if __name__ == "__main__":
    run(main)
