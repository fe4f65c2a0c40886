"""`python -m benchmarks NAME …`: a measurement by its name.

    gpu         every row that a GPU is to be measured by, each with its own time (gpu.py)
    oracle      features that are the scenes' own symbols: what a model says that misreads nothing (oracle.py)
    reality     scores on rendered test pairs beside scores on labelled real images (reality.py)
    wheels      the small packages that such a machine lacks, to bring along (wheels.py)

Any other names, or none, are of rows beside a reference (side_by_side.py). A command is imported when it is
called: a machine that is lent for its GPU has no Java, no metrics and nothing to draw with.
"""

import sys
from importlib import import_module

COMMANDS = ("gpu", "oracle", "reality", "wheels")

if __name__ == "__main__":
    command = sys.argv[1] if sys.argv[1:2] and sys.argv[1] in COMMANDS else "side_by_side"
    sys.argv[1:] = sys.argv[1 + (command in COMMANDS) :]
    import_module(f"benchmarks.{command}").main()
