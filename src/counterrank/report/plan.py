"""What to randomise: what each option costs, and the lifts that its log would detect."""

import math
import re

from counterrank.exploration import Cost, DetectableLift, ExplorationPlan
from counterrank.report.answer import joined_names
from counterrank.report.document import (
    BRIEF,
    PAGE,
    Block,
    Document,
    Figure,
    Note,
    Paragraph,
    Row,
    Table,
    interval_row,
    section,
)
from counterrank.report.words import count, percent, percents, roughly
from counterrank.statistics import Number


def document(plan: ExplorationPlan, _: int = PAGE) -> Document:
    """Return the recommendation, its chart and its table."""
    title, *lines = sentences(plan)
    blocks: list[Block] = [Paragraph(line, detail=BRIEF) for line in lines]
    blocks.append(
        Paragraph(
            f"Policy for the server and for the log it writes: {plan.spec}", "aid", detail=BRIEF
        )
    )
    aid = "Bars are intervals of the change; beside each option the smallest lift that its log would show."
    name, (rows, table) = "Cost and detectable lift", _options(plan)
    blocks.append(Figure("plan", rows, "change of the metric in %", name, title=name, aid=aid))
    lead = (
        f"The lift is the smallest that {count(plan.rows)} rankings detect in four of five logs; "
        "“never” if the option does not show the items that such a ranker would show."
    )
    blocks += section("What was tried, the cheapest first", "options", table, lead=lead)
    by_models = any(option.cost.rests_on == "models" for option in plan.options)
    told = (*plan.notes, *(["* predicted by models of users alone."] if by_models else []))
    blocks += section("How to read it", "reading", *map(Note, told))
    return Document(title, blocks)


def sentences(plan: ExplorationPlan) -> list[str]:
    """Return what the plan says, one thing per sentence, the most important first."""
    best, names = plan.choice, joined_names(plan.judged, "and")
    lift, rows = percent(best.worst(plan.judged)), count(plan.rows)
    shows = math.isfinite(best.worst(plan.judged))
    lines = []
    if plan.chosen == 0 and plan.reached:
        lines.append(
            f"Keep today's policy: {rows} of its rankings already detect lifts of {names} from {lift} on."
        )
    elif plan.reached:
        lines.append(
            f"Serve {best.kind}: it {cost_words(best.cost)}. {rows} rankings detect lifts of {names} from {lift} on."
        )
    elif plan.chosen == 0:
        lines.append(
            f"Keep today's policy: no option within the budget of {percent(plan.budget)} detects clearly "
            f"smaller lifts of {names}" + (f" than {lift} in {rows} rankings." if shows else ".")
        )
    else:
        lines.append(
            f"No option detects lifts of {percent(plan.detect)} of {names} in {rows} rankings. Within the "
            f"budget of {percent(plan.budget)}, {best.kind} is best"
            + (f": it detects lifts from {lift} on and {cost_words(best.cost)}." if shows else ".")
        )
    lines += [] if plan.reached else [_needed(plan)]
    if best.cost.rests_on == "models" and plan.chosen:
        lines.append(
            "The cost is predicted by models of users alone, because the log has no such pages. Start with a "
            "small share of the traffic, and plan again from its log."
        )
    return lines


def _needed(plan: ExplorationPlan) -> str:
    rows = plan.choice.needed(plan.judged)
    if math.isinf(rows):
        return (
            f"No realistic number of rankings detects {percent(plan.detect)} for all of them: ask for a "
            "larger lift, allow a larger loss, or run an A/B test."
        )
    weeks = f", {roughly(rows / plan.rows_per_week)} weeks of traffic" if plan.rows_per_week else ""
    return f"About {roughly(rows)} rankings would be enough for {percent(plan.detect)}{weeks}."


def cost_words(cost: Cost) -> str:
    """Return what an option costs, or gains, as a verb with its interval."""
    verb, sign = ("costs", 1) if cost.value >= 0 else ("gains", -1)
    reach = percents(*sorted((sign * cost.low, sign * cost.high)))
    return f"{verb} {percent(abs(cost.value))} of the metric ({reach})"


def _options(plan: ExplorationPlan) -> tuple[list[Row], Table]:
    """Return today's policy and the options that no other beats, the cheapest first, as a chart and as a table.

    A loss is a negative change.
    """
    rows, cells, styles = list[Row](), [], []
    shown = {0, plan.chosen, *plan.frontier}
    for index in sorted(shown, key=lambda i: plan.options[i].cost.value):
        option, chosen = plan.options[index], index == plan.chosen
        cost, least, spec = option.cost, option.worst(plan.judged), shortened(option.spec)
        change = Number(-100 * cost.value, low=-100 * cost.high, high=-100 * cost.low)
        note = f"lifts from {percent(least)}" if math.isfinite(least) else ""
        label = "★ " * chosen + option.kind
        rows.append(interval_row(label, change, error=0.5, note=note, hints=[spec]))
        mark = "★ chosen" if chosen else "frontier" if index in plan.frontier else ""
        reach = percents(-cost.high, -cost.low) + " *" * (cost.rests_on == "models")
        number = percent(-cost.value, sign=True)
        cells.append((option.kind, spec, number, reach, *map(_words, option.detectable), mark))
        styles.append("bold" * chosen)
    targets = [detectable.target for detectable in plan.options[0].detectable]
    head = ("option", "policy", "change", "interval", *(f"lift of {name}" for name in targets), "")
    # Of the targets, those that do not count go first.
    unjudged = [4 + j for j, name in enumerate(targets) if name not in plan.judged]
    caption = (
        "Change of the metric, and the smallest lift that the log would detect: today's policy and the options "
        "on the frontier"
    )
    minor = (1, 3, *unjudged)
    return rows, Table(caption, head, cells, 2, styles, minor, detail=BRIEF)


def _words(detectable: DetectableLift) -> str:
    if detectable.lift is not None:
        return percent(detectable.lift)
    return "never" if detectable.rows_needed is None else "too few rows"


def shortened(spec: str) -> str:
    """Return a spec with three digits per number, for tables.

    >>> shortened("0.97520000000000001*top+0.0248*shuffle")
    '0.975*top+0.0248*shuffle'
    """
    return re.sub(r"\d+\.\d+(e[-+]?\d+)?", lambda number: f"{float(number[0]):.3g}", spec)
