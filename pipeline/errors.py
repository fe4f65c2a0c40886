"""The one exception that means "the user can mend this"."""


class InputError(Exception):
    """Bad input, said so that a person can act on it.

    The message names the file, key or pair and the remedy. Stages print it as
    ``error: …`` and leave with exit code 2, without a traceback.
    """


def listed(problems: list[str], what: str, remedy: str, shown: int = 20) -> InputError:
    """An InputError over many problems: the count, the first ones by name, the remedy."""
    rest = f" (the first {shown} of {len(problems)})" if len(problems) > shown else ""
    lines = "".join(f"\n  {problem}" for problem in problems[:shown])
    return InputError(f"{what}: {len(problems)} problem(s){rest}; {remedy}{lines}")
