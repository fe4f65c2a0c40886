"""Read the options of every command from its parser."""

import argparse
from contextlib import suppress
from unittest.mock import patch

from pipeline.captioning import package
from pipeline.cli.arguments import is_output
from tests.running import ROOT, script

COMMANDS = sorted(path.stem for folder in ("stages", "commands") for path in (ROOT / folder).glob("[!_]*.py"))


class ParsedError(Exception):
    pass


def options(command):
    """Return the options of a command: name -> action of argparse."""
    found = []

    def caught(self, *_):
        found.extend(action for action in self._actions if action.dest != "help")
        raise ParsedError

    with patch.object(argparse.ArgumentParser, "parse_args", caught), suppress(ParsedError):
        script(command).main()
    return {action.dest: action for action in found}


def outputs(command):
    """Return the outputs of a command: option -> Contents, or None for a single file."""
    found = {name: action.type for name, action in options(command).items() if is_output(action)}
    own = {package.to_write: package.CONTENTS}
    return {name: own.get(kind, getattr(kind, "__self__", None)) for name, kind in found.items()}


def typed(action, place):
    """Return the words that a user types for an option or argument."""
    if action.choices:
        place = str(next(iter(action.choices)))
    elif action.type is int or "whole" in str(action.type):
        place = "1"
    return [*action.option_strings[:1], place]
