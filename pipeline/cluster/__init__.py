"""Jobs here or on a SLURM cluster: its settings, one job in its folder, the queue that loses none."""
