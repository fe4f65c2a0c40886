"""A reader of free English: it turns texts about a change into claims and judges them by the scene."""
