"""A reader of free English: it turns texts about a change into claims."""
