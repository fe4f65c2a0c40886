"""The stages of dvc.yaml, one thin script each: parse arguments, call the pipeline, write outputs."""

from pathlib import Path

from pipeline.cli.running import run as run

# for one release, the old names of commands, such as `python -m stages.caption`, also work
__path__.append(str(Path(__file__).parents[1] / "commands"))
