"""counterrank plan: what to randomise, what it costs, and what it lets next rankers show."""

from counterrank.cli.calls import Call, command

_EPILOG = """Examples:

\b
  counterrank plan log.parquet --logger top --out explore.json --html plan.html
  counterrank plan log.parquet --logger top --policy new=top --detect 0.02 --budget 0.005
  counterrank evaluate next-month.parquet --logger explore.json --policy new=top --target new

LOG has the scores of all candidates (`propensity_scores`); its ranker may be deterministic. Candidates are given with
--policy; without any, rankers near production stand for them. Exit codes: 0 done; 2 bad usage or bad input.
"""


@command("plan", _EPILOG)
def plan(call: Call) -> None:
    """Recommend what to randomise so that future rankers can be evaluated, and what it costs."""
    from counterrank.exploration import plan

    out = call.json_file("out")
    result = call.run(plan, **call.settings)
    if out is not None:
        result.save(out)
    call.deliver(result)
