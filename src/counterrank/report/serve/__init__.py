"""Past evaluations in a browser, on this machine only: reports, comparisons, history, outcomes."""

from counterrank.report.serve.app import make_server, run
from counterrank.report.serve.store import record

__all__ = ["make_server", "record", "run"]
