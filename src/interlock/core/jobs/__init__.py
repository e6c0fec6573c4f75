"""Jobs: changes of their definitions, and answers about them."""
