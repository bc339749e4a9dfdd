"""One small world and a log of it, shared by the tests of `auto` and its relatives."""

import numpy as np
import pytest

from counterrank.research.simulate import random


@pytest.fixture(scope="module")
def env():
    return random(3, K=4, actions=3)


@pytest.fixture(scope="module")
def log(env):
    return env.draw(3000, np.random.default_rng(5)).to_log()
