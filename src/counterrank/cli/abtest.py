"""counterrank abtest: a test that ran, with every row read for every ranker."""

from counterrank.cli.calls import Call, command, exit_if, not_shipped

_ABTEST = """Examples:

\b
  counterrank abtest test.parquet --arm variant --policy a=plackett-luce --policy b=plackett-luce
  counterrank abtest test.parquet --arm variant --baseline control --html test.html --json test.json
  counterrank abtest test.parquet --arm variant --sequential --time day
  counterrank abtest test.parquet --arm variant --reward clicks=click --reward revenue=revenue \\
      --primary clicks --guardrail 'revenue >= -0.01' --segment device

The log holds the rows of all arms. Each arm has a column of its own name with its probabilities of the shown items in
every row, also those that another arm served, or scores (NAME_scores) and --policy NAME=KIND. Exit codes: 0 done; 1 the
arms cannot be compared, or --require was not met; 2 bad usage or bad input.
"""


@command("abtest", _ABTEST)
def abtest(call: Call) -> None:
    """Read an A/B test with its log: each row is used for every ranker that could have shown it."""
    from counterrank.evaluation import abtest

    result = call.run(abtest, **call.settings)
    call.deliver(result)
    if not result.valid:
        exit_if("the test is not valid: its arms cannot be compared")
    if call.get("require"):
        exit_if(not_shipped(result.decision))
