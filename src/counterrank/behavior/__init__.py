"""Which items matter to which reward: masks, candidate models, and trees that choose among them by context."""
