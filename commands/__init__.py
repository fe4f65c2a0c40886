"""Command-line tools, one thin script each. Users run them; dvc.yaml does not."""

from pipeline.cli.running import run as run
