"""A whole cluster under faults, on virtual time, from a seed; the invariants hold after every step."""
