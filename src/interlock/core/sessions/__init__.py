"""Sessions: runs with one key, in order."""
