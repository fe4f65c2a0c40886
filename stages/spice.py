"""spice: bring the files that SPICE needs (387 MB) into its folder, by their Maven coordinates; verify them.

No stage of the pipeline, but a user's choice: without these files every other metric is computed.
"""

import argparse

from pipeline.scoring import spice, spice_files
from stages import run


def main() -> None:
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    for jar in spice_files.JARS:
        print(f"{jar.name} ({jar.size / 1e6:.2f} MB) …", flush=True)
        print("  fetched" if spice_files.fetch(jar) else "  is there", flush=True)
    if said := spice_files.problem() or spice.unavailable(timeout=60):
        print(f"warning: the files are right, but SPICE cannot run now: {said}")
    else:
        print(f"SPICE {spice.VERSION} is ready in {spice_files.folder()}")
        print("captions scored without it: dvc repro --force --single-item score constant && dvc repro")


if __name__ == "__main__":
    run(main)
