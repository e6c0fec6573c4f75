"""What a field is: its kinds, checks and descriptions, and the values of arguments and results."""
