"""What each check of the audit detects, and how often it accuses a healthy log in vain.

    python -m benchmarks.audit_power [--rows 6000] [--seeds 2] [--first 0] [--only NAME,NAME] [--fresh | --judge]

Without an option: one row for each code, over all kinds of errors and of healthy services. Power is the share
of logs in which it speaks, of the kinds of errors in which it speaks at all; with one seed that says nothing.
`--fresh` counts only those that set no threshold (`benchmarks.other_services`). `--judge` evaluates these: which
broken logs are called reliable although the interval misses the truth, and whether a healthy log with a question
gets back, once it is answered, the evidence and the decision that it has without the question.
"""

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np

import counterrank as cr
from benchmarks import front_page, healthy, other_services, pipeline_errors
from benchmarks.healthy import as_numbers, shortened
from benchmarks.pipeline_errors import PRECISE, RELIABLE, World, audited, judged, shop_world
from counterrank.common.findings import FAILED
from counterrank.evaluation.verdict import level_of, of_audit

#: Name of a kind, and one log of it.
Logs = Iterator[tuple[str, World]]


def services(seed: int, rows: int, *, fresh: bool) -> Logs:
    """Yield a healthy log of each kind; odd seeds have probabilities, even ones scores of all candidates."""
    for place, (name, kind) in enumerate(other_services.SERVICES.items()):
        world = kind(np.random.default_rng([seed, 99, place]), rows)
        yield name, shortened(as_numbers(world) if seed % 2 else world)
    if fresh:
        return
    for name in healthy.KINDS:
        yield name, healthy.healthy_world(name, seed, rows)
    for name in front_page.HEALTHY:
        for world in front_page.pages(name, rows, [seed]):
            yield f"page, {name}", world


def faults(seed: int, rows: int, *, fresh: bool) -> Logs:
    """Yield a broken log of each kind."""
    for name in other_services.FAULTS:
        yield name, other_services.broken(name, seed, rows)
    if fresh:
        return
    for name, error in pipeline_errors.ERRORS.items():
        shop = pipeline_errors.Shop(rows=rows, **PRECISE)
        yield f"shop, {name}", error(shop_world(shop, seed), np.random.default_rng(seed + 1))
    for name in front_page.ERRORS:
        for world in front_page.pages(name, rows, [seed]):
            yield f"page, {name}", world


def _chosen(given: argparse.Namespace, logs: object, *, fresh: bool) -> Logs:
    names = [name for name in given.only.split(",") if name]
    for seed in range(given.first, given.first + given.seeds):
        for name, world in logs(seed, given.rows, fresh=fresh):  # type: ignore[operator]
            if not names or any(part in name for part in names):
                yield name, world


def power(given: argparse.Namespace) -> None:
    """Print one row for each code."""
    spoken: dict[str, dict[str, int]] = defaultdict(Counter)
    logs: Counter[str] = Counter()
    for name, world in _chosen(given, faults, fresh=given.fresh):
        told = of_audit(audited(world), "new")
        logs[name] += 1
        for code in {finding.code for finding in told}:
            spoken[code][name] += 1
    accused: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for _, world in _chosen(given, services, fresh=given.fresh):
        told = [finding for finding in audited(world) if finding.stands and finding.kind != "note"]
        refuted = any(finding.status is FAILED for finding in told)
        counts.update(["logs"] + ["refuted"] * refuted + ["asked"] * bool(told))
        accused.update({finding.code for finding in told})
    print("| code | kinds of errors | power | healthy logs accused | such as |")
    print("|---|---|---|---|---|")
    for code in sorted({*spoken, *accused}, key=lambda code: (-len(spoken[code]), code)):
        kinds = spoken[code]
        seen, every = sum(kinds.values()), sum(logs[name] for name in kinds)
        such = max(kinds, key=kinds.__getitem__, default="")
        rate = f"{100 * seen / every:.0f} %" if every else ""
        print(f"| `{code}` | {len(kinds)} | {rate} | {accused[code]} | {such} |")
    unseen = sum(
        times for name, times in logs.items() if not any(name in kinds for kinds in spoken.values())
    )
    print(f"\n{sum(logs.values())} broken logs of {len(logs)} kinds: nothing is said of {unseen}")
    print(
        f"{counts['logs']} healthy logs: {counts['refuted']} refuted, {counts['asked']} asked or refuted"
    )


def judge(given: argparse.Namespace) -> None:
    """Evaluate broken logs, and healthy ones that are asked about."""
    totals: Counter[str] = Counter()
    for name, world in _chosen(given, faults, fresh=True):
        log = judged(world)
        missed = log.level == RELIABLE and not log.contains
        totals.update(["broken"] + [RELIABLE] * (log.level == RELIABLE) + ["missed"] * missed)
        told = f"{log.level}{' MISSED' if missed else ''}, off by {100 * log.off:+.1f} %"
        print(f"{name:42} {told:36} {', '.join(log.codes)}", flush=True)
    for name, world in _chosen(given, services, fresh=given.fresh):
        audit = audited(world)
        told = [finding for finding in audit if finding.stands and finding.kind != "note"]
        refuted = any(finding.status is FAILED for finding in told)
        totals.update(["healthy"] + ["refuted"] * refuted + ["asked"] * bool(told and not refuted))
        if told:
            regained = answered(world, tuple(finding.answer for finding in audit.questions))
            totals.update(["regained"] * regained)
            codes = ", ".join(sorted({finding.code for finding in told}))
            print(f"{name:42} {'regained' if regained else 'LOST':36} {codes}", flush=True)
    print(
        f"\n{totals['broken']} broken logs: {totals[RELIABLE]} reliable, {totals['missed']} of these missed\n"
        f"{totals['healthy']} healthy logs: {totals['refuted']} refuted, {totals['asked']} asked a question, of "
        f"which {totals['regained']} have the decision and the evidence back that they have without the audit"
    )


def answered(world: World, accept: tuple[str, ...]) -> bool:
    """Return whether a log whose questions are answered has the evidence and the decision that go with all else."""
    options = {"time": world.time, "target_is_fresh": True, "estimators": ["auto"]}
    asked, told = (
        cr.evaluate(world.log(), ["new"], accept=answers, **options) for answers in ((), accept)
    )
    questions = {finding.code for finding in asked.audit.questions}
    level = level_of([reason for reason in asked.verdict.reasons if reason.code not in questions])
    # A question alone never holds a decision back.
    held = {reason.code for reason in told.decision.reasons if reason.blamed}
    return told.verdict.level == level and not questions & held


def main() -> None:
    """Print the table, or judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--judge", action="store_true")
    given = parser.parse_args()
    (judge if given.judge else power)(given)


if __name__ == "__main__":
    main()
