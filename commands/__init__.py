"""The tools that a person runs, one thin script each; dvc.yaml runs none of them."""

from pipeline.cli.running import run as run
