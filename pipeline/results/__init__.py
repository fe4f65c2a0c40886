"""Make the tables, figures and claims of the results page from the records of runs."""
