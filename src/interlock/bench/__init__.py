"""Measurements of Interlock on the machine at hand. `bench/` in the repository adds raw SQLite and the peers."""
