"""The shell around the core: collect, step, commit, send."""
