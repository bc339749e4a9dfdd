"""counterrank abtest: a test that ran, with every row read for every ranker."""

from counterrank.cli.calls import Call, command

_ABTEST = """Examples:

\b
  counterrank abtest test.parquet --arm variant --policy a=plackett-luce --policy b=plackett-luce
  counterrank abtest test.parquet --arm variant --baseline control --html test.html --json test.json
  counterrank abtest test.parquet --arm variant --sequential

The log holds the rows of all arms. Each arm has a column of its own name with its probabilities of the shown items in
every row, also those that another arm served, or scores (NAME_scores) and --policy NAME=KIND. Exit codes: 0 done; 2 bad
usage or bad input.
"""


@command("abtest", _ABTEST)
def abtest(call: Call) -> None:
    """Read an A/B test with its log: each row is used for every ranker that could have shown it."""
    from counterrank.evaluation import abtest

    call.hand_over(call.run(abtest, **call.settings))
