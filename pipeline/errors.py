"""The one exception that means "the user can mend this"."""


class InputError(Exception):
    """Bad input, said so that a person can act on it.

    The message names the file, key or pair and the remedy. Stages print it as
    ``error: …`` and leave with exit code 2, without a traceback.
    """


def listed(
    problems: list[str], what: str, remedy: str, shown: int = 20, count: int | None = None
) -> InputError:
    """An InputError over many problems: the count, the first ones by name, the remedy.

    `count` is how many there are where `problems` are only the first of them.
    """
    count = len(problems) if count is None else count
    rest = f" (the first {shown} of {count})" if count > shown else ""
    lines = "".join(f"\n  {problem}" for problem in problems[:shown])
    return InputError(f"{what}: {count} problem(s){rest}; {remedy}{lines}")
