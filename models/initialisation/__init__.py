"""Initial weights that no paper has: training on few pairs starts from them."""
