"""Code that all command lines share: types of arguments, start, errors and exit codes."""
