"""What the shell needs from outside, one port a file. The docstrings are the contract every adapter is held to."""
