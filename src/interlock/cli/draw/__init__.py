"""Tables, trees, charts and texts for people."""
