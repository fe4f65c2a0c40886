"""The stages of dvc.yaml, one thin script each: parse arguments, call the pipeline, write outputs."""

from pathlib import Path

from pipeline.cli.running import run as run

# for one release `python -m stages.caption` and the other old names of commands are found, too
__path__.append(str(Path(__file__).parents[1] / "commands"))
