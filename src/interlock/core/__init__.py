"""The machine: everything Interlock decides, as plain synchronous code with no clock and no I/O."""
