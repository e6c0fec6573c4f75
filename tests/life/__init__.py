"""The life of workers: the lifespan of an app, restarts during development, versions of code."""
