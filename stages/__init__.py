"""The stages of dvc.yaml, one module each.

A stage parses arguments, calls the pipeline and writes outputs.
"""

from pipeline.cli.running import run as run
from pipeline.cli.running import spin_briefly

spin_briefly()
