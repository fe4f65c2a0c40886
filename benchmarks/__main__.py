"""`python -m benchmarks NAME …` runs measurements by name.

    gpu         measure a GPU; each measurement has a time limit (gpu.py)
    oracle      write features that are made from the scene descriptions (oracle.py)
    reality     compare scores on rendered test pairs with scores on labelled real images (reality.py)
    wheels      download the packages that a machine with a GPU lacks (wheels.py)

With other names, or without a name, side_by_side.py compares our code with reference implementations. A
command is imported only when it is called, because a machine with a GPU may lack Java, metrics and plotting.
"""

import sys
from importlib import import_module

COMMANDS = ("gpu", "oracle", "reality", "wheels")

if __name__ == "__main__":
    command = sys.argv[1] if sys.argv[1:2] and sys.argv[1] in COMMANDS else "side_by_side"
    sys.argv[1:] = sys.argv[1 + (command in COMMANDS) :]
    import_module(f"benchmarks.{command}").main()
