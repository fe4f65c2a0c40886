"""Code that all command lines share: types of arguments, starting a program, errors and exit codes."""
