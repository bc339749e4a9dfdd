"""Past evaluations in a browser, on this machine only."""

from counterrank.serve.app import make_server, run

__all__ = ["make_server", "run"]
