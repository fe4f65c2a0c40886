"""Studies: the rows of a paper's table or figure, run through the pipeline's own stages, and their table."""
