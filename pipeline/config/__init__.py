"""Settings: params.yaml, datasets.yaml, and the recipe with the resolved settings of a training run."""
