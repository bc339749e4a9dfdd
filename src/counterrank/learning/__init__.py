"""Learning of a ranking policy from a log, with a certificate of its lift."""

from counterrank.learning.learner import GRADES, learn
from counterrank.learning.policy import LearnedPolicy, refuse_other_formats
from counterrank.learning.result import Certificate, Learned, Step

__all__ = [
    "GRADES",
    "Certificate",
    "Learned",
    "LearnedPolicy",
    "Step",
    "learn",
    "refuse_other_formats",
]
