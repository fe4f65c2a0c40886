"""Check out what DVC's run cache has of these stages, in their order, up to the first that it lacks.

DVC does so only on the way to running a stage; here nothing is run.
"""

import argparse

from dvc.repo import Repo
from dvc.stage.cache import RunCacheNotFoundError

from commands import run
from pipeline.cli.arguments import parsed, word


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("stages", type=word, nargs="+", metavar="STAGE", help="as DVC calls it")
    names = parsed(parser).stages
    with Repo() as repo, repo.lock:
        for name in names:
            (stage,) = repo.stage.collect(name)
            try:
                repo.stage_cache.restore(stage)
            except RunCacheNotFoundError:
                return


if __name__ == "__main__":
    run(main)
