"""Commands that keep the database."""
