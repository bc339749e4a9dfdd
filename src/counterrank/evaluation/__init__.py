"""The one orchestration: a log and targets in, an Evaluation out."""
