"""Jobs: changes of their definitions, and answers about them.

Jobs in files and in Python are declared at each start and reload, all or none (`engine/declarations.py`, `changes.py`);
a schedule whose times are unchanged keeps its anchor and cursor. Jobs put over the API are stored. A definition is
stored with the first run that refers to it. The version of a job covers a digest of its function
(`worker/app_loader.py`); a worker's `Hello` carries the digests of its own code, so the scheduler can name workers
that differ.
"""
