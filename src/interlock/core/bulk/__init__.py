"""Bulk requests: one request for every run that matches a filter, and retries of ended runs.

Each pass carries out a part of a request beside whatever else has arrived, and stores the counts and the last run
looked at with the changes. A scheduler that takes over continues there.
"""
