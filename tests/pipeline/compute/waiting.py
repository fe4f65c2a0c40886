"""The program that test_launch.py starts: writes its process id, then does what its argument says."""

import os
import signal
import sys
import time
from pathlib import Path


def main(folder, *orders):
    rank = os.environ["RANK"]
    threads = os.environ["OMP_NUM_THREADS"]
    Path(folder, f"{rank}.partial").write_text(f"{os.getpid()} {os.environ['WORLD_SIZE']} {threads}")
    Path(folder, f"{rank}.partial").rename(Path(folder, rank))
    order = orders[int(rank)]
    if order == "follow":  # as a stage does
        from pipeline.compute import process_group

        process_group.end_with_starter()
        Path(folder, f"{rank}.follows").touch()
    if order in ("wait", "follow"):
        time.sleep(100)
    while not all(Path(folder, str(other)).exists() for other in range(len(orders))):
        time.sleep(0.02)
    if order == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    sys.exit(int(order))


if __name__ == "__main__":
    main(*sys.argv[1:])
