"""The stages of dvc.yaml, one module each.

A stage parses arguments, calls the pipeline and writes outputs.
"""

from pathlib import Path

from pipeline.cli.running import run as run
from pipeline.cli.running import spin_briefly

spin_briefly()

# for one release, the old names of commands, such as `python -m stages.caption`, also work
__path__.append(str(Path(__file__).parents[1] / "commands"))
