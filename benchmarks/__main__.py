"""All tables: python -m benchmarks [--quick] [--peers] [--only
speed,stream,growth,peers,scaling,startup].
"""

import argparse
import os

# Ratios of processor time: hidden threads of BLAS would be counted too.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

SECTIONS = ("speed", "stream", "growth", "peers", "scaling", "startup")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument(
        "--peers", action="store_true", help="also install and run other packages (needs a network)"
    )
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, separated by commas")
    given = parser.parse_args()
    wanted = [name.strip() for name in given.only.split(",")]
    unknown = set(wanted) - set(SECTIONS)
    if unknown:
        parser.error(
            f"unknown sections: {', '.join(sorted(unknown))}; known: {', '.join(SECTIONS)}"
        )
    from benchmarks import growth, peers, scale, startup

    print(
        f"{len(os.sched_getaffinity(0))} cores; ratios of processor time unless a column says "
        "otherwise"
    )
    if "speed" in wanted:
        growth.speed([8_000, 100_000] if given.quick else [8_000, 100_000, 1_000_000])
    if "stream" in wanted:
        scale.stream(1_000_000 if given.quick else 10_000_000)
    if "growth" in wanted:
        growth.exponents(quick=given.quick)
    if "peers" in wanted and given.peers:
        peers.table()
    if "scaling" in wanted:
        scale.weak_scaling(100_000 if given.quick else 500_000)
    if "startup" in wanted:
        startup.table()
        startup.first_run()


if __name__ == "__main__":
    main()
