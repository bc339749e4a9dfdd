"""One estimator, one file; `registry` knows them by name."""
