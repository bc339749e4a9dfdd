"""From a log to a better ranking policy, with a certificate."""

from counterrank.learn.learning import GRADES, learn
from counterrank.learn.policy import LearnedPolicy, load_policy
from counterrank.learn.result import Certificate, Learned, Step

__all__ = ["GRADES", "Certificate", "Learned", "LearnedPolicy", "Step", "learn", "load_policy"]
