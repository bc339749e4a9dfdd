from tests.evaluation.logs import contextual, gentle, published_8000  # noqa: F401 - fixtures for this folder
