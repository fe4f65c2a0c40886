"""The options of every command, as its parser has them."""

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
    """The options of a command, by name."""
    found = []

    def caught(self, *_):
        found.extend(action for action in self._actions if action.dest != "help")
        raise ParsedError

    with patch.object(argparse.ArgumentParser, "parse_args", caught), suppress(ParsedError):
        script(command).main()
    return {action.dest: action for action in found}


def outputs(command):
    """What each output of a command is: Contents, or None of a file."""
    found = {name: action.type for name, action in options(command).items() if is_output(action)}
    own = {package.to_write: package.CONTENTS}
    return {name: own.get(kind, getattr(kind, "__self__", None)) for name, kind in found.items()}


def typed(action, place):
    """What a user types for an option, or in the place of an argument."""
    if action.choices:
        place = str(next(iter(action.choices)))
    elif action.type is int or "whole" in str(action.type):
        place = "1"
    return [*action.option_strings[:1], place]
