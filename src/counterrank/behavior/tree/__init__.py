"""The behaviour tree: binning, objective, growth, prediction, words and pictures."""
