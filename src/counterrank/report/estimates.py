"""The estimates as charts.

What each policy earns, whether the estimators agree, and the order path from each item alone (IIPS)
to the whole ranking (IPS).
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from markupsafe import Markup

from counterrank.messages import has
from counterrank.report import sentences
from counterrank.report.charts import (
    Axis,
    AxisScale,
    Plot,
    PlotFrame,
    Point,
    Row,
    RowChart,
    Series,
    around,
)
from counterrank.report.numbers import NONE, count, known, percent, plain, span
from counterrank.report.parts import (
    Section,
    Style,
    bullets,
    figure,
    figure_of,
    folded,
    grid,
    grid_of,
    section,
    style_of,
    table,
    tag,
)
from counterrank.report.reading import Interval, Reading, ends, family, known_bias

if TYPE_CHECKING:
    from counterrank.estimators import Estimate, Lift
    from counterrank.evaluation import OrderPoint


def values(reading: Reading) -> Section | None:
    """Return today's policy and every target on one axis, with the table and who beats whom."""
    reward, ranking = reading.words()
    aid = f"Each mark is a value, each bar its {sentences.level(reading)} interval."
    if _region(reading) is not None:
        aid += (
            f" Inside the shaded region the lift is below {percent(reading.practical)} and of "
            "no practical interest."
        )
    title = f"{reward.capitalize()} per {ranking}"
    drawn = grid(figure(title, aid, values_drawing(reading).svg(), _values_table(reading)))
    body = _lifts(reading) + drawn + _comparisons(reading) if drawn else drawn
    return section("values", "What each policy earns", "", body)


def _lifts(reading: Reading) -> Markup:
    """Return the chart of the lifts; with several metrics theirs stands above already."""
    if len(reading.result.metrics) > 1:
        return Markup("")
    aid = (
        f"Each mark is the difference to {reading.baseline_words} on the same rows, each bar its "
        f"{sentences.level(reading)} interval. Left of the line is a loss, right of it a gain."
    )
    if reading.practical is not None:
        aid += f" In the shaded region the change is below {percent(reading.practical)}."
    drawn = lifts_drawing(reading).svg()
    return grid(figure(f"Lift over {reading.baseline_words}", aid, drawn, _lifts_table(reading)))


def lifts_drawing(reading: Reading) -> RowChart:
    """Return the lift of each target with its interval against zero.

    In per cent of what the baseline earns, or in rewards where a share of it has no meaning.
    """
    shares = all(known(reading.lift(target).relative) for target in reading.candidates)
    reward, ranking = reading.words()
    unit = "in %" if shares else f"{reward} per {ranking}"
    practical, today = reading.practical, reading.log.value
    region = None
    if practical is not None and (shares or known(today)):
        reach = 100 * practical if shares else abs(today) * practical
        region = -reach, reach
    return RowChart(
        [_lift_row(reading, target, shares=shares) for target in reading.candidates],
        Axis(f"lift over {reading.baseline_words}, {unit}", 0.0, "no change", region, signed=True),
        "Lift of each policy with its interval",
    )


def _lift_row(reading: Reading, target: str, *, shares: bool) -> Row:
    lift, style = reading.lift(target), style_of(reading, target)
    size = plain(lift.value, lift.stderr, sign=True)
    words = (
        sentences.relative_ends(lift)
        if shares
        else span(lift.low, lift.high, lift.stderr, sign=True)
    )
    shown = percent(lift.relative, sign=True) if shares else size
    if shares:
        value, low, high = (
            100 * one for one in (lift.relative, lift.relative_low, lift.relative_high)
        )
    else:
        value, low, high = lift.value, lift.low, lift.high
    return Row(
        label=target, note=f"by {reading.best(target).estimator}", value=value, low=low, high=high, shown=shown,
        tip=f"{target}\n{shown} ({sentences.interval(reading, words)})\n{size} per {reading.words()[1]}",
        look=style.look, shape=style.shape, faded=reading.evidence(target) == "insufficient",
    )  # fmt: skip


def _lifts_table(reading: Reading) -> Markup:
    head = ("policy", "lift", "std. error", "low", "high", "relative", "interval")
    body = []
    for target in reading.candidates:
        lift = reading.lift(target)
        cells = [plain(one, lift.stderr, sign=True) for one in (lift.value, lift.low, lift.high)]
        relative = percent(lift.relative, sign=True), sentences.relative_ends(lift) or NONE
        body.append((target, cells[0], plain(lift.stderr, lift.stderr), *cells[1:], *relative))
    return table(head, body)


def values_drawing(reading: Reading) -> RowChart:
    """Return today's value and each policy's with its interval."""
    shown = [*_logging(reading), *(_target(reading, target) for target in reading.targets)]
    return RowChart(
        shown, _axis(reading, _region(reading)), "Values of all policies with intervals"
    )


def _axis(reading: Reading, region: tuple[float, float] | None = None) -> Axis:
    today = reading.log.value
    line = today if known(today) else None
    named = "today" if reading.over_logger else "logger"
    return Axis(" per ".join(reading.words()), line=line, line_name=named, region=region)


def _logging(reading: Reading) -> Iterator[Row]:
    value, error = reading.log.value, reading.log.stderr
    if not known(value):
        return
    reach = reading.reach(error) if known(error) else None
    low, high = (value - reach, value + reach) if reach is not None else (None, None)
    shown = plain(value, error)
    who = reading.logger_words
    tip = f"{who}\n{shown} ± {plain(error, error)}\nmeasured, not estimated"
    yield Row(label=who, note="measured", value=value, low=low, high=high, shown=shown, tip=tip,
              look="today", shape=2)  # fmt: skip


def _target(reading: Reading, target: str) -> Row:
    best, lift, style = reading.best(target), reading.lift(target), style_of(reading, target)
    error = best.stderr
    value = plain(best.value, error)
    change = (
        percent(lift.relative, sign=True)
        if known(lift.relative)
        else plain(lift.value, lift.stderr, sign=True)
    )
    tip = (
        f"{target} by {best.estimator}\n{value} ± {plain(error, error)}\n"
        f"{sentences.interval_of(reading, best)}\nlift {change}"
    )
    return Row(
        label=target, note=f"by {best.estimator}", value=best.value, low=best.low, high=best.high,
        shown=f"{value} ({change})", tip=tip, look=style.look, shape=style.shape,
        faded=reading.evidence(target) == "insufficient",
    )  # fmt: skip


def _region(reading: Reading) -> tuple[float, float] | None:
    today, practical = reading.log.value, reading.practical
    if not known(today) or practical is None:
        return None
    return today * (1 - practical), today * (1 + practical)


def _values_table(reading: Reading) -> Markup:
    head = ("policy", "value", "std. error", "low", "high", "lift", "lift low", "lift high", "relative")  # fmt: skip
    log = reading.log
    shown = (plain(log.value, log.stderr), plain(log.stderr, log.stderr))
    body: list[tuple[str, ...]] = [(reading.logger_words, *shown, *(NONE,) * 6)]
    body += [(name, *_cells(reading.best(name), reading.lift(name))) for name in reading.targets]
    return table(head, body)


def _cells(row: Interval, lift: "Lift") -> tuple[str, ...]:
    return (
        *(plain(one, row.stderr) for one in (row.value, row.stderr, row.low, row.high)),
        *(plain(one, lift.stderr, sign=True) for one in (lift.value, lift.low, lift.high)),
        percent(lift.relative, sign=True),
    )


def _comparisons(reading: Reading) -> Markup:
    every = (sentences.comparison(reading, row) for row in reading.result.comparisons)
    found = [sentence for sentence in every if sentence]
    return tag("p", found[0]) if len(found) == 1 else bullets(found)


#: What estimators rest on, in the order they are shown.
_GROUPS = {
    "weights": ("From weights alone", "no model of the reward"),
    "model": ("With a model of the reward", "weights correct what the model gets wrong"),
    "biased": ("Biased as soon as items act on each other", "shown for comparison"),
}


def agreement(reading: Reading) -> Section | None:
    """Return one figure a target, the flags, and what was left out."""
    figures = grid_of(reading, _agreement_figure)
    lead = (
        "Different methods make different mistakes. When those that should agree do agree, the "
        "answer is safer."
    )
    body = figures + _flags(reading) + _skipped(reading) if figures else figures
    return section("estimators", "Do the estimators agree?", lead, body)


def agreement_drawing(reading: Reading, target: str) -> RowChart:
    """Return every estimate of a target, the recommended one first, then by what they rest on."""
    found = reading.of(target)
    best = reading.recommended(target)
    shown = [Row(label="Recommended", value=None, heading=True)]
    shown += [_estimate(reading, target, e) for e in found if e.estimator == best]
    for name, (title, note) in _GROUPS.items():
        members = [e for e in found if e.estimator != best and family(e.estimator) == name]
        if members:
            shown.append(Row(label=title, note=note, value=None, heading=True))
            shown += [_estimate(reading, target, e, faded=name == "biased") for e in members]
    return RowChart(shown, _axis(reading), f"Estimates of {target}")


def _agreement_figure(reading: Reading, target: str) -> Markup:
    aid = (
        f"{agreement_in_words(reading, target)} The recommended estimate comes first; known "
        "bias is greyed."
    )
    numbers = _estimates_table(reading, target) + _why(reading, target)
    return figure_of(reading, target, aid, agreement_drawing(reading, target).svg(), numbers)


def agreement_in_words(reading: Reading, target: str) -> str:
    """Return whether the intervals that should agree overlap with the recommended one's, naming those that do not."""
    best = reading.best(target)
    own = ends(best.low, best.high)
    sound = [e for e in reading.of(target) if e is not best and family(e.estimator) != "biased"]
    others = {e.estimator: found for e in sound if (found := ends(e.low, e.high))}
    if own is None:
        return "The recommended estimate has no interval to compare with."
    if not others:
        return "Nothing else was asked for that could confirm or contradict the recommended one."
    apart = [name for name, (low, high) in others.items() if low > own[1] or high < own[0]]
    return _disagreement(apart, umpire="ips" in others and "ips" not in apart)


def _disagreement(apart: list[str], *, umpire: bool) -> str:
    if not apart:
        return "All intervals that should agree overlap with the recommended one."
    verb = "does" if len(apart) == 1 else "do"
    told = (
        f"{', '.join(apart)} {verb} not overlap with the recommended estimate: the methods rest on "
        "different assumptions, and at least one of them fails here."
    )
    # IPS alone holds whatever users do: with it at hand, the reader knows which side to doubt.
    if umpire:
        told += " ips, which assumes nothing about users, agrees with the recommended one."
    return told


def _why(reading: Reading, target: str) -> Markup:
    """What the recommended estimator says about its own choice."""
    found = reading.best(target).details.get("why")
    name = tag("em", f"{reading.recommended(target)}: ")
    return tag("p", name, found, class_="aid why") if found else Markup("")


def _estimate(reading: Reading, target: str, e: "Estimate", *, faded: bool = False) -> Row:
    # One column, one number of digits: those that the recommended estimate's error supports.
    error, low, high = reading.error(target, e), e.low, e.high
    style, name, flags = style_of(reading, target), e.estimator, e.flags
    lines = [
        f"{name}: {plain(e.value, error)} ± {plain(e.stderr, error)}",
        sentences.interval(reading, span(low, high, error)),
        f"lift {percent(e.lift.relative, sign=True)}",
        f"effective rows {count(e.ess)}",
        *(f"⚑ {flag}" for flag in flags),
    ]
    best = name == reading.recommended(target)
    note = known_bias(name) if faded else ("★ recommended" if best else "")
    return Row(
        label=name + (" ⚑" if flags else ""), note=note, value=e.value, low=low, high=high,
        shown=plain(e.value, error), tip="\n".join(lines), look=style.look, shape=style.shape, faded=faded,
    )  # fmt: skip


def _estimates_table(reading: Reading, target: str) -> Markup:
    head = ("estimator", "value", "std. error", "low", "high", "lift", "relative", "effective rows")
    body = []
    for e in reading.of(target):
        value, error, low, high, lift, _, _, relative = _cells(e, e.lift)
        body.append((e.estimator, value, error, low, high, lift, relative, count(e.ess)))
    return table(head, body)


def _flags(reading: Reading) -> Markup:
    found: dict[str, list[str]] = {}
    for e in reading.estimates:
        for flag in e.flags:
            found.setdefault(flag, []).append(f"{e.target}/{e.estimator}")
    lines = [_who(", ".join(who)) + " " + flag for flag, who in found.items()]
    return tag("div", tag("h3", "⚑ Flags"), bullets(lines), class_="block") if lines else Markup("")


def _who(names: str) -> Markup:
    return tag("span", names, class_="who")


def _skipped(reading: Reading) -> Markup:
    found = dict.fromkeys((row.subject, row.text) for row in reading.result.skipped)
    lines = [tag("li", _who(name), " ", reason) for name, reason in found]
    name = f"{len(lines)} left out, and why"
    return folded(name, tag("ul", *lines)) if lines else Markup("")


ALONE = "weights alone"
MODELLED, CONTROLLED = "with a reward model", "with mean-zero controls"


def order_path(reading: Reading) -> Section | None:
    """Return a path for each target that has one."""
    lead = (
        "How many items at a time must be looked at together? Flat: items do not act on each "
        "other. A drift: they do. A funnel: the data ends."
    )
    body = grid_of(reading, _path_figure)
    return section("order", "From each item alone to the whole ranking", lead, body)


def path_drawing(reading: Reading, target: str) -> Plot | None:
    """Return the path of the weights alone and the one around a reward model."""
    both = _paths(reading, target)
    if all(len(path) < 2 for path in both.values()):
        return None
    shown = {
        name: [_path_point(reading, row, name) for row in path]
        for name, path in both.items()
        if path
    }
    style = style_of(reading, target)
    series = [_path_series(name, path, style) for name, path in shown.items()]
    frame = _path_frame(reading, [point for path in shown.values() for point in path])
    return Plot(series, frame, f"Order path of {target}", list(shown))


def _path_frame(reading: Reading, points: list[Point]) -> PlotFrame:
    today = reading.log.value
    lines = [(today, "today")] if known(today) else []
    orders = sorted({p.x for p in points})
    first, last = orders[0], orders[-1]
    # Logarithmic: the first orders matter most, and the last may be far away.
    margin = (last / first) ** 0.07
    return PlotFrame(
        x=AxisScale(first / margin, last * margin, log=True), y=_heights(points, [value for value, _ in lines]),
        x_title="items looked at together", y_title=" per ".join(reading.words()), lines=lines,
        x_ticks=[(x, _order_name(int(x), first, last)) for x in orders],
    )  # fmt: skip


def _paths(reading: Reading, target: str) -> "dict[str, list[OrderPoint]]":
    # Without whole distributions auto has no model of the reward, and says so.
    second = CONTROLLED if has(reading.best(target).flags, "weights-only") else MODELLED
    return {ALONE: reading.order_path(target), second: reading.model_path(target)}


def _path_figure(reading: Reading, target: str) -> Markup:
    found, both = path_drawing(reading, target), _paths(reading, target)
    if found is None:
        return Markup("")
    aid = sentences.path(next((path for path in both.values() if path), []))
    return figure_of(reading, target, aid, found.legend() + found.svg(), _path_table(both))


def _path_series(name: str, path: list[Point], style: Style) -> Series:
    # The second without band and whiskers: beside the first rather than on top of it.
    alone = name == ALONE
    look = style.look if alone else f"{style.look} hollow dash1"
    return Series(points=path, look=look, shape=style.shape, band=alone, whiskers=alone)


def _heights(points: list[Point], today: list[float]) -> AxisScale:
    """An axis for the estimates: neither hopeless last orders nor a far-away today may flatten them."""
    # The median's width, which the last orders, whose weights explode, cannot move.
    widths = sorted((p.high or p.y) - (p.low or p.y) for p in points)
    reach = 1.5 * widths[len(widths) // 2]
    held: list[float] = []
    for p in points:
        held += [p.y, max(p.low or p.y, p.y - reach), min(p.high or p.y, p.y + reach)]
    low, high = min(held), max(held)
    near = [value for value in today if low - (high - low) <= value <= high + (high - low)]
    return around(held, also=near)


def _order_name(order: int, first: float, last: float) -> str:
    return (
        f"{order} IIPS" if order == first == 1 else f"{order} IPS" if order == last else str(order)
    )


def _path_point(reading: Reading, found: "OrderPoint", name: str) -> Point:
    tip = f"order {found.order}, {name}: {plain(found.value, found.stderr)}"
    if whole := span(found.low, found.high, found.stderr):
        tip += f"\n{sentences.interval(reading, whole)}"
    if known(found.ess):
        tip += f"\neffective rows {count(found.ess)}"
    place = float(found.order), found.value
    # A whisker needs both ends.
    return Point(*place, found.low, found.high, tip) if whole else Point(*place, tip=tip)


def _path_table(both: "Mapping[str, list[OrderPoint]]") -> Markup:
    body = [
        (name, p.order, *(plain(one, p.stderr) for one in (p.value, p.low, p.high)), count(p.ess))
        for name, path in both.items() for p in path
    ]  # fmt: skip
    return table(("", "order", "value", "low", "high", "effective rows"), body)
