"""Scans of results, beside the scheduler: a process that reads the store, and one below it that runs the scanners."""
