"""Settings: params.yaml, datasets.yaml, and the recipe that a training run is resolved to."""
