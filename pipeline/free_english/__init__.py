"""A reader of free English: texts about a change become claims, which are judged by the scene."""
