"""Recovery: the state from the store, after a start and after a defect."""
