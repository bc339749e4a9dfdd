"""The ledger of the paper's claims: every number of two pages of docs/evidence, made from results.

    python -m benchmarks.ledger RESULTS            # the tables of both pages, from what RESULTS has
    python -m benchmarks.ledger RESULTS --run      # first every command of docs/evidence/reproduction.md, as written

RESULTS is the folder of the runs: `--out` of these commands begins with it. An interrupted run resumes.
"""
