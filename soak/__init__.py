"""Long checks that `make soak` runs: many seeds of the simulation, every change of every clock."""
