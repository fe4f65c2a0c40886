"""Studies: the runs of a paper's table, as jobs on this machine or a cluster."""
