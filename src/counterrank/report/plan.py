"""What to randomise: what each option costs, and the lifts that its log would detect."""

import math
import re

from counterrank.exploration import Cost, DetectableLift, ExplorationOption, ExplorationPlan
from counterrank.policies import parse_policy
from counterrank.report.answer import joined_names
from counterrank.report.document import (
    BRIEF,
    PAGE,
    VERBOSE,
    Block,
    Document,
    Fold,
    Mark,
    Note,
    Paragraph,
    Row,
    Table,
    interval_row,
    section,
)
from counterrank.report.forest import OUTCOMES, Forest, Line, column_over, outcome
from counterrank.report.words import (
    count,
    percent,
    percents,
    roughly,
    sentence,
    short,
    whole_percents,
)
from counterrank.statistics import Number


def document(plan: ExplorationPlan, _: int = PAGE) -> Document:
    """Return the recommendation, and the options as one picture: what each costs, and what its log would show."""
    title, *lines = sentences(plan)
    blocks: list[Block] = [Paragraph(line, detail=BRIEF) for line in lines]
    served = f"Policy for the server and for the log it writes: {plan.spec}"
    blocks += [_forest(plan), Paragraph(served, "code", detail=BRIEF)]
    by_models = any(option.cost.rests_on == "models" for option in plan.options)
    told = (*plan.notes, *(["* predicted by models of users alone."] if by_models else []))
    details = section("Every option that no other beats", "options", _table(plan), *map(Note, told))
    return Document(title, [*blocks, Fold("For data scientists", details, "details")], plan.to_dict)


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


def _shown(plan: ExplorationPlan) -> list[int]:
    """Return today's policy and the options that no other beats, the cheapest first."""
    shown = {0, plan.chosen, *plan.frontier}
    return sorted(shown, key=lambda index: plan.options[index].cost.value)


def _forest(plan: ExplorationPlan) -> Forest:
    """Return a line for each option over two columns: the change of the metric, and the smallest lift it shows."""
    shown = _shown(plan)
    changes = {index: _change(plan.options[index]) for index in shown}
    lifts = {index: _least(plan.options[index].worst(plan.judged)) for index in shown}
    budget, names = -100 * plan.budget, joined_names(plan.judged, "and")
    cost = [f"a loss of {percent(plan.budget)} is allowed"]
    least = [f"of {names}, from {count(plan.rows)} rankings", f"{percent(plan.detect)} is wanted"]
    aim, harm = 100 * plan.detect, (-math.inf, budget)
    columns = [
        column_over(
            "change of the metric", changes.values(), [1.5 * budget], facts=cost, harm=harm
        ),
        column_over("smallest lift it shows", lifts.values(), [2 * aim], facts=least, total=aim),
    ]
    lines = []
    for index in shown:
        option, chosen = plan.options[index], index == plan.chosen
        lines.append(
            Line(
                label=option.kind,
                note="predicted by models" if option.cost.rests_on == "models" else "from the log",
                state="serve" if chosen else "same" if index == 0 else "option",
                cells=[changes[index], lifts[index]],
                cause=sentence(policy_words(option.spec)),
            )
        )
    lines.sort(key=lambda line: line.state != "serve")
    return Forest(
        kind="plan",
        caption="What each option costs, and what its log would show, in per cent",
        columns=columns,
        lines=lines,
        plural="options",
        head="option, and where its cost is from",
        aid=f"Line: {percent(plan.level, digits=0)} interval. Dashed: the lift that is wanted.",
        beyond="beyond the budget",
        detail=BRIEF,
    )


def _change(option: ExplorationOption) -> Row:
    """Return the change of the metric; a loss is negative."""
    cost = option.cost
    change = Number(-cost.value, 0.0, -cost.high, -cost.low)
    mark = OUTCOMES["unclear"] if cost.low == cost.high else outcome(change.low, change.high)
    return interval_row("change", change, mark, share=1.0, hints=[shortened(option.spec)])


#: A lift that would be shown is neither better nor worse.
_LIFT = Mark("", "unclear", 2)


def _least(lift: float) -> Row:
    """Return the smallest lift that the log of an option would show."""
    if not math.isfinite(lift):
        return Row(label="shows lifts from", shown="never", mark=_LIFT)
    return Row(label="shows lifts from", value=100 * lift, shown=percent(lift), mark=_LIFT)


#: Each kind of policy in words; options stand in the braces.
_POLICIES = {
    "top": "sorted by score",
    "shuffle": "in random order",
    "plackett-luce": "drawn by score at temperature {temperature}",
    "softmax": "each position drawn by score at temperature {temperature}",
    "epsilon": "sorted by score, each position replaced at random with probability {epsilon}",
    "rand-top-n": "sorted by score, the first {n} in random order",
    "swap": "sorted by score, two items swapped with probability {probability}",
    "below": "sorted by score, drawn at temperature {temperature} below position {after}",
}


def policy_words(spec: str) -> str:
    """Return a spec in words.

    >>> policy_words("0.9*top+0.1*plackett-luce:temperature=0.25")
    'pages sorted by score (90 %) or drawn by score at temperature 0.25 (10 %)'
    """
    policy = parse_policy(spec)
    parts = policy.parts or ((1.0, policy),)
    shares = whole_percents([share for share, _ in parts])
    told = []
    for share, (_, component) in zip(shares, parts, strict=True):
        if not share:
            continue
        options = {name: short(value, 2) for name, value in component.options.items()}
        words = _POLICIES.get(component.kind, component.text).format_map(options)
        told.append(f"{words} ({share} %)" if len(parts) > 1 else words)
    return f"pages {joined_names(told, 'or')}"


def _table(plan: ExplorationPlan) -> Table:
    """Return the options with the lift of each target that its log would detect; a loss is a negative change."""
    cells, styles = [], []
    for index in _shown(plan):
        option, chosen = plan.options[index], index == plan.chosen
        cost, spec = option.cost, shortened(option.spec)
        mark = "★ chosen" if chosen else "frontier" if index in plan.frontier else ""
        reach = percents(-cost.high, -cost.low) + " *" * (cost.rests_on == "models")
        number = percent(-cost.value, sign=True)
        cells.append((option.kind, spec, number, reach, *map(_words, option.detectable), mark))
        styles.append("bold" * chosen)
    targets = [detectable.target for detectable in plan.options[0].detectable]
    head = ("option", "policy", "change", "interval", *(f"lift of {name}" for name in targets), "")
    # Of the targets, those that do not count go first.
    unjudged = [4 + j for j, name in enumerate(targets) if name not in plan.judged]
    caption = "Change of the metric, and the smallest lift of each target that the log would detect"
    return Table(caption, head, cells, 2, styles, (1, 3, *unjudged), detail=VERBOSE)


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
