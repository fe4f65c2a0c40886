"""Tables, figures, claims and the results page, made from the records of runs."""
