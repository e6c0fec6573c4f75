"""Lanes, and the gates that their runs pass.

`lane.py` has the order of the waiting runs. The slots in use are the runs whose state holds a slot; there is no
separate counter that could drift. Limit, rate and status of a lane come from its declaration, and from a memo of what
was changed at run time (`changes.py`). A queue waits at the first closed gate (`gates.py`): rates, limits and declared
tenants.
"""
