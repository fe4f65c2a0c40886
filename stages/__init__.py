"""The stages of dvc.yaml, one module each.

A stage parses arguments, calls the pipeline and writes outputs.
"""

from pipeline.cli.running import run as run
