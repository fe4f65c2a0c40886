"""Studies: the cells of a paper's table, run as jobs on this machine or a cluster."""
