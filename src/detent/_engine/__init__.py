"""Running: the life of a job is claim, dispatch, execute, finish; the modules are named so."""
