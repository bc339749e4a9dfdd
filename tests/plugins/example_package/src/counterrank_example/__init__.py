"""An example of a package that adds an estimator and a policy to counterrank."""
