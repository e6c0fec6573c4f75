"""What the stores with tables have in common: statements, rows, and the answers made of them.

A statement of queries.sql has a name and named values. What each database says in its own way stands in braces, and is
filled in from the database's dialect; `INDEXED BY` and `CROSS JOIN` tell SQLite which index and which order to use, and
are left out where the database chooses itself. Answers are coroutines over a `View`, which has the rows as one commit
left them. SQLite's view never waits, so that a thread runs such a coroutine to its end in one go (`view.at_once`).
"""
