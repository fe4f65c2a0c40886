"""`python -m benchmarks NAME …` runs measurements by name.

    gpu         measurements of a GPU, each with a time limit (gpu.py)
    oracle      features made of the scenes' own symbols (oracle.py)
    reality     scores on rendered test pairs next to scores on labelled real images (reality.py)
    wheels      download of the packages that a machine with a GPU lacks (wheels.py)

Other names, or none, run rows against a reference (side_by_side.py). A command is imported when it is
called: a machine with a GPU may lack Java, metrics and plotting.
"""

import sys
from importlib import import_module

COMMANDS = ("gpu", "oracle", "reality", "wheels")

if __name__ == "__main__":
    command = sys.argv[1] if sys.argv[1:2] and sys.argv[1] in COMMANDS else "side_by_side"
    sys.argv[1:] = sys.argv[1 + (command in COMMANDS) :]
    import_module(f"benchmarks.{command}").main()
