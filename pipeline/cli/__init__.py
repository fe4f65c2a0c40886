"""Shared code of all command lines: types of arguments, start, errors and exit codes."""
