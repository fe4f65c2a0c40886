"""From the records of cells to tables, figures, claims and the page of results."""
