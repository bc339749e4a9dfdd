import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from conftest_evaluation import contextual, gentle, published_8000  # noqa: F401 - fixtures for this folder
