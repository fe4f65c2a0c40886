"""What all command lines share: their arguments, how they begin, and how they end."""
