"""The pure machine: tables, examples and properties, with no event loop."""
