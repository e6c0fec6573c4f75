"""Policy: what may run, who must agree, and what may come out, as pure functions of values."""
