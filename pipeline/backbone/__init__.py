"""The backbone itself: training it on a rendered dataset, and a linear probe of what its features know."""
