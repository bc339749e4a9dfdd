"""A log that is not in memory, as far as others can tell, and counts how often it is read."""


class Elsewhere:
    """The rankings of a source, of which neither the number nor the place is known."""

    n = None

    def __init__(self, source):
        self.source, self.first = source, source.first
        self.samples, self.passes = 0, 0

    def sample(self, rows, rng):
        self.samples += 1
        return self.source.sample(rows, rng)

    def reduce(self, partial, *, label=""):
        self.passes += 1
        return self.source.reduce(partial, label=label)
