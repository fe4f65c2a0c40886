"""SCORER, its backward reasoning (CBR), and the subtraction baseline."""
