"""Classes of users that look at a ranking in different ways, found from the rewards of a log."""
