"""Workers: a host with the link and the heartbeat, and executor processes that do the work."""
