"""The whole system on virtual time: one thread, one seed, every fault."""
