"""Small jobs for the tests of the queue: shell commands in a folder."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
HOLDS = "while [ ! -e go ]; do sleep 0.05; done"


class Shell:
    """A task that runs a command, and counts how often its results were taken."""

    def __init__(self, folder: Path, command: str, after: "Shell | None" = None):
        self.folder, self.command, self.after, self.taken = folder, command, after, 0

    @property
    def name(self) -> str:
        return self.folder.name

    def begin(self, running):
        if self.after in running:
            return None
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.command

    def finish(self) -> None:
        self.taken += 1

    def ran(self) -> list[str]:
        """The words that the commands appended to the file `ran`."""
        path = self.folder / "ran"
        return path.read_text().split() if path.exists() else []
