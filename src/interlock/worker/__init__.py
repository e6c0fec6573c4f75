"""Workers: a host that keeps the link and the heartbeat, and executor processes in which the work happens."""
