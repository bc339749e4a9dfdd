"""A reward model with the paper's picture inside: own effect, and pair effects by how far the others are seen."""
