"""Run studies: the runs of a paper's table, as jobs on this machine or on a cluster."""
