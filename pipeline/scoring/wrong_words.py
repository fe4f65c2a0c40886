"""Which words of a caption are marked as wrong, where it is shown beside the truth."""

from collections.abc import Sequence


def marks(words: Sequence[str], wrong: str | None) -> list[bool]:
    """Of each word of a caption, whether it belongs to the first run that is `wrong` (truth.Verdict)."""
    meant = (wrong or "").split()
    for first in range(len(words) - len(meant) + 1 if meant else 0):
        if list(words[first : first + len(meant)]) == meant:
            return [first <= place < first + len(meant) for place in range(len(words))]
    return [False] * len(words)
