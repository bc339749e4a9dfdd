"""The study of the lift: what `auto` says of it on real people and in simulated worlds, judged.

    python -m benchmarks.lift --data DIR --draws dev --logs 4 --out out/lift

`docs/evidence/appendix.md` says what is judged and how.
"""
