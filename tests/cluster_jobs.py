"""Small jobs for the tests of the queue: commands of the shell, in a folder of their own."""

from pathlib import Path

from pipeline.study.job import Job

ROOT = Path(__file__).parents[1]


class Shell:
    """A task that runs commands, each with the file that it leaves, and counts how often it was taken."""

    def __init__(self, folder: Path, *commands: str, after: "Shell | None" = None):
        self.folder, self.commands, self.after, self.taken = folder, commands, after, 0

    @property
    def name(self) -> str:
        return self.folder.name

    def begin(self, others):
        if self.after in others:
            return None
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in ("pipeline", "stages", "commands"):  # SLURM starts it there
            if not (self.folder / name).exists():
                (self.folder / name).symlink_to(ROOT / name)
        steps = [f"( [ -e out{n} ] || ( {command} ) )" for n, command in enumerate(self.commands)]
        return Job(str(self.folder), str(self.folder), " && ".join(steps))

    def finish(self) -> None:
        self.taken += 1

    def reached(self) -> str:
        return str(sorted(path.name for path in self.folder.glob("out*")))

    def shown(self) -> tuple[str, str, str]:
        return "1/2", "CIDEr-D 0.500", "3 s"

    def ran(self) -> list[str]:
        """What its commands wrote down, one line a run."""
        path = self.folder / "ran"
        return path.read_text().split() if path.exists() else []


def once(name: str, rest: str = "true") -> str:
    """A command that says that it ran, and leaves `out0`."""
    return f"echo {name} >> ran; {rest} && touch out0"
