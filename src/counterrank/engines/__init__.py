"""Where the sums are made: here, or on a cluster."""
