"""Command-line tools, one module each. Users run them by hand; no stage of dvc.yaml runs them."""

from pipeline.cli.running import run as run
from pipeline.cli.running import spin_briefly

spin_briefly()
