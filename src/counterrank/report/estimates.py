"""The estimates as charts: what each policy earns, whether the estimators agree, and the path from IIPS to IPS."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from counterrank.messages import has
from counterrank.report.answer import comparison, interval, interval_of, level, relative_ends, width
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
from counterrank.report.document import (
    BRIEF,
    VERBOSE,
    Block,
    Figure,
    Note,
    Paragraph,
    Table,
    section,
)
from counterrank.report.numbers import NONE, count, known, percent, plain, span
from counterrank.report.reading import Reading, ends, family, known_bias
from counterrank.texts import sentence

if TYPE_CHECKING:
    from counterrank.estimators import Estimate
    from counterrank.evaluation import OrderPoint


def values(reading: Reading) -> list[Block]:
    """Return today's policy and every target on one axis, their lifts, and every estimate as a table."""
    reward, ranking = reading.words()
    aid = f"Each mark is a value, each bar its {level(reading)} interval."
    region = _region(reading)
    if region is not None:
        aid += f" In the shaded region the lift is below {percent(reading.practical)}, too small to matter."
    shown = [*_logging(reading), *(_target(reading, target) for target in reading.targets)]
    earned = RowChart(shown, _axis(reading, region), "Values of all policies with intervals")
    lifts = Figure("lifts", f"Lift over {reading.baseline_words}", aid, _lifts(reading))
    value = Figure("values", f"{reward.capitalize()} per {ranking}", aid, earned)
    lines = [line for row in reading.result.comparisons if (line := comparison(reading, row))]
    told = [Paragraph(line, detail=BRIEF if len(lines) == 1 else VERBOSE) for line in lines]
    return section("What each policy earns", "values", lifts, value, *told, _table(reading))


def _lifts(reading: Reading) -> RowChart:
    """Return the lift of each policy, in per cent where that means something."""
    shares = all(known(reading.lift(target).relative_low) for target in reading.candidates)
    rows = []
    for target in reading.candidates:
        lift, mark = reading.lift(target), reading.mark(target)
        numbers = (
            (lift.relative, lift.relative_low, lift.relative_high)
            if shares
            else (lift.value, lift.low, lift.high)
        )
        value, low, high = (100 * one if shares else one for one in numbers)
        shown = (
            percent(lift.relative, sign=True)
            if shares
            else plain(lift.value, width(lift), sign=True)
        )
        reach = relative_ends(lift) if shares else span(lift.low, lift.high, width(lift), sign=True)
        rows.append(
            Row(label=target, note=f"by {reading.recommended(target)}", value=value, low=low, high=high, shown=shown,
                tip=f"{target}\n{shown} ({reach})", look=mark.look, shape=mark.shape,
                faded=reading.evidence(target) == "insufficient")
        )  # fmt: skip
    title = "lift in %" if shares else f"lift in {' per '.join(reading.words())}"
    return RowChart(
        rows, Axis(title, line=0.0, line_name="no change", signed=True), "Lifts of all policies"
    )


def _axis(reading: Reading, region: tuple[float, float] | None = None) -> Axis:
    today = reading.log.value
    line = today if known(today) else None
    named = "today" if reading.over_logger else "logger"
    return Axis(" per ".join(reading.words()), line=line, line_name=named, region=region)


def _region(reading: Reading) -> tuple[float, float] | None:
    today, practical = reading.log.value, reading.practical
    if not known(today) or practical is None:
        return None
    return today * (1 - practical), today * (1 + practical)


def _logging(reading: Reading) -> Iterator[Row]:
    value, error = reading.log.value, reading.log.stderr
    if known(value):
        reach = reading.reach(error) if known(error) else None
        low, high = (value - reach, value + reach) if reach is not None else (None, None)
        shown, who = plain(value, error), reading.logger_words
        yield Row(label=who, note="measured", value=value, low=low, high=high, shown=shown,
                  tip=f"{who}\n{shown}\nmeasured, not estimated", look="today", shape=2)  # fmt: skip


def _target(reading: Reading, target: str) -> Row:
    best, lift, mark = reading.best(target), reading.lift(target), reading.mark(target)
    value = plain(best.value, width(best))
    change = (
        percent(lift.relative, sign=True)
        if known(lift.relative)
        else plain(lift.value, width(lift), sign=True)
    )
    return Row(
        label=target, note=f"by {best.estimator}", value=best.value, low=best.low, high=best.high,
        shown=f"{value} ({change})", tip=f"{target} by {best.estimator}\n{value}\n{interval_of(reading, best)}",
        look=mark.look, shape=mark.shape, faded=reading.evidence(target) == "insufficient",
    )  # fmt: skip


def _table(reading: Reading) -> Table:
    """Return every estimate of every target; what an interval is made of stands beside it."""
    rows: list[tuple[str, ...]] = []
    styles: list[str] = []
    for target in reading.targets:
        rows.append((target,))
        styles.append("head")
        best = reading.best(target)
        for one in reading.of(target):
            mine = one.estimator == reading.recommended(target)
            rows.append((f"{'★' if mine else ' '} {one.estimator}", *_cells(reading, one, best)))
            styles.append("bold" if mine else "dim" if family(one.estimator) == "biased" else "")
        for name in reading.silent(target):
            rows.append(
                (
                    f"{'★' if name == reading.recommended(target) else ' '} {name}",
                    "not estimable",
                    *("",) * 6,
                )
            )
            styles.append("dim")
    head = ("estimator", "lift", f"{level(reading)} interval", "relative", "value", "sampling error",
            "bias allowance", "effective rows")  # fmt: skip
    return Table(
        "Estimates (★ recommended)", head, rows, styles=styles, minor=(6, 5, 7, 4, 3), detail=BRIEF
    )


def _cells(reading: Reading, one: Estimate, best: Estimate) -> tuple[str, ...]:
    """Return the cells of an estimate with the digits that the recommended one's interval supports."""
    spread = width(best.lift) if known(width(best.lift)) and width(best.lift) else width(one.lift)
    error = width(best) if known(width(best)) and width(best) else width(one)
    part = reading.reach(one.lift.stderr) if known(one.lift.stderr) else None
    return (
        plain(one.lift.value, spread, sign=True),
        span(one.lift.low, one.lift.high, spread, sign=True) or NONE,
        percent(one.lift.relative, sign=True),
        plain(one.value, error),
        f"± {plain(part, part)}" if known(part) else NONE,
        f"± {plain(one.allowance, one.allowance)}" if one.allowance else NONE,
        count(one.ess),
    )


#: What estimators rest on, in the order they are shown.
_GROUPS = {
    "weights": ("From weights alone", "no model of the reward"),
    "model": ("With a model of the reward", "weights correct what the model gets wrong"),
    "biased": ("Biased as soon as items act on each other", "shown for comparison"),
}


def agreement(reading: Reading) -> list[Block]:
    """Return one figure a target, the flags, and what was left out."""
    lead = "Different methods make different mistakes. When those that should agree do agree, the answer is safer."
    figures = [_agreement(reading, target) for target in reading.targets if reading.of(target)]
    more = [*_flags(reading), *_skipped(reading)] if figures else []
    return section("Do the estimators agree?", "estimators", *figures, *more, lead=lead)


def _agreement(reading: Reading, target: str) -> Figure:
    """Return every estimate of a target, the recommended one first, then by what they rest on."""
    found, best = reading.of(target), reading.recommended(target)
    shown = [Row(label="Recommended", value=None, heading=True)]
    shown += [_estimate(reading, target, e) for e in found if e.estimator == best]
    for name, (title, note) in _GROUPS.items():
        members = [e for e in found if e.estimator != best and family(e.estimator) == name]
        if members:
            shown.append(Row(label=title, note=note, value=None, heading=True))
            shown += [_estimate(reading, target, e, faded=name == "biased") for e in members]
    aid = f"{agreement_in_words(reading, target)} Estimates with a known bias are dashed."
    if why := reading.best(target).details.get("why"):
        aid += f" {best}: {why}"
    chart = RowChart(shown, _axis(reading), f"Estimates of {target}")
    return Figure("agreement", "", aid, chart, mark=reading.mark(target))


def agreement_in_words(reading: Reading, target: str) -> str:
    """Return what the verdict says of agreement, or whether the intervals that should agree overlap."""
    doubt = next(
        (one for one in reading.reasons(target) if one.code == "agreement" and one.blamed), None
    )
    if doubt is not None:
        return sentence(doubt.text)
    best = reading.best(target)
    own = ends(best.low, best.high)
    sound = [e for e in reading.of(target) if e is not best and family(e.estimator) != "biased"]
    others = {e.estimator: found for e in sound if (found := ends(e.low, e.high))}
    if own is None:
        return "The recommended estimate has no interval to compare with."
    if not others:
        return "Nothing else was asked for that could confirm or contradict the recommended one."
    apart = [name for name, (low, high) in others.items() if low > own[1] or high < own[0]]
    if not apart:
        return "All intervals that should agree overlap with the recommended one."
    told = (
        f"{', '.join(apart)} {'does' if len(apart) == 1 else 'do'} not overlap with the recommended estimate: the "
        "methods rest on different assumptions, and at least one of them fails here."
    )
    # IPS is right whatever users do: with it at hand, the reader knows which side to doubt.
    umpire = "ips" in others and "ips" not in apart
    return told + (
        " ips, which assumes nothing about users, agrees with the recommended one."
        if umpire
        else ""
    )


def _estimate(reading: Reading, target: str, e: Estimate, *, faded: bool = False) -> Row:
    # One column, one number of digits: those that the recommended estimate's error supports.
    error, mark, name = reading.error(target, e), reading.mark(target), e.estimator
    lines = [
        f"{name}: {plain(e.value, error)}",
        interval(reading, span(e.low, e.high, error)),
        f"lift {percent(e.lift.relative, sign=True)}",
        f"effective rows {count(e.ess)}",
        *(f"⚑ {flag}" for flag in e.flags),
    ]
    note = (
        known_bias(name)
        if faded
        else "★ recommended"
        if name == reading.recommended(target)
        else ""
    )
    return Row(
        label=name + (" ⚑" if e.flags else ""), note=note, value=e.value, low=e.low, high=e.high,
        shown=plain(e.value, error), tip="\n".join(lines), look=mark.look, shape=mark.shape, faded=faded,
    )  # fmt: skip


def _flags(reading: Reading) -> list[Block]:
    found: dict[str, list[str]] = {}
    for e in reading.estimates:
        for flag in e.flags:
            found.setdefault(flag, []).append(f"{e.target}/{e.estimator}")
    title = [Paragraph("Flags of estimates", "strong", detail=VERBOSE)] if found else []
    return [
        *title,
        *(Note(flag, name=", ".join(who), detail=VERBOSE) for flag, who in found.items()),
    ]


def _skipped(reading: Reading) -> list[Block]:
    found = dict.fromkeys((row.subject, row.text) for row in reading.result.skipped)
    title = (
        [Paragraph("Estimators that were skipped, and why", "strong", detail=VERBOSE)]
        if found
        else []
    )
    return [*title, *(Note(reason, name=name, detail=VERBOSE) for name, reason in found)]


ALONE = "weights alone"
MODELLED, CONTROLLED = "with a reward model", "with mean-zero controls"


def order_path(reading: Reading) -> list[Block]:
    """Return a path for each target that has one."""
    lead = (
        "How many items at a time must be looked at together? Flat: items do not act on each "
        "other. A drift: they do. A funnel: the data ends."
    )
    figures = [_path_figure(reading, target) for target in reading.targets]
    return section("From each item alone to the whole ranking", "order", *figures, lead=lead)


def _path_figure(reading: Reading, target: str) -> Figure | None:
    # Without whole distributions auto has no model of the reward, and says so.
    second = CONTROLLED if has(reading.best(target).flags, "weights-only") else MODELLED
    both = {ALONE: reading.order_path(target), second: reading.model_path(target)}
    if all(len(path) < 2 for path in both.values()):
        return None
    mark = reading.mark(target)
    shown = {
        name: [_path_point(reading, row, name) for row in path]
        for name, path in both.items()
        if path
    }
    # The second without band and whiskers: beside the first rather than on top of it.
    series = [
        Series(points=points, look=mark.look if name == ALONE else f"{mark.look} hollow dash1", shape=mark.shape,
               band=name == ALONE, whiskers=name == ALONE)
        for name, points in shown.items()
    ]  # fmt: skip
    frame = _path_frame(reading, [point for path in shown.values() for point in path])
    aid = path_in_words(next((path for path in both.values() if path), []))
    chart = Plot(series, frame, f"Order path of {target}", list(shown))
    return Figure("order-path", "", aid, chart, _path_table(target, both), mark)


def path_in_words(points: Sequence[OrderPoint]) -> str:
    """Return what an order path says: flat, drifting, or out of data."""
    found = [p for p in points if known(p.low) and known(p.high)]
    if len(found) < 2:
        return ""
    first = found[0]
    apart = [p for p in found[1:] if not p.low <= first.value <= p.high]
    # Four times as wide is a sixteenth of the rows: there the data ends.
    wide = found[-1].high - found[-1].low > 4 * (first.high - first.low)
    if apart:
        text = "Looking at each item alone gives a different answer: how items act on each other matters here."
    elif wide:
        return "No drift beyond the noise, but the intervals open up towards the right: there the data ends."
    else:
        text = "No drift beyond the noise: this log shows no sign that items act on each other."
    return text + (" The intervals open up towards the right: there the data ends." if wide else "")


def _path_frame(reading: Reading, points: list[Point]) -> PlotFrame:
    today = reading.log.value
    lines = [(today, "today")] if known(today) else []
    orders = sorted({p.x for p in points})
    first, last = orders[0], orders[-1]
    names = {last: f"{last:g} IPS", **({first: "1 IIPS"} if first == 1 else {})}
    # Logarithmic: the first orders matter most, and the last may be far away.
    margin = (last / first) ** 0.07
    return PlotFrame(
        x=AxisScale(first / margin, last * margin, log=True), y=_heights(points, [value for value, _ in lines]),
        x_title="items looked at together", y_title=" per ".join(reading.words()), lines=lines,
        x_ticks=[(x, names.get(x, f"{x:g}")) for x in orders],
    )  # fmt: skip


def _heights(points: list[Point], today: list[float]) -> AxisScale:
    """An axis for the estimates: neither hopeless last orders nor a far-away today may flatten them."""
    # The median's width, which the last orders, whose weights explode, cannot move.
    widths = sorted((p.high or p.y) - (p.low or p.y) for p in points)
    reach = 1.5 * widths[len(widths) // 2]
    shown: list[float] = []
    for p in points:
        shown += [p.y, max(p.low or p.y, p.y - reach), min(p.high or p.y, p.y + reach)]
    low, high = min(shown), max(shown)
    near = [value for value in today if low - (high - low) <= value <= high + (high - low)]
    return around([*shown, *near])


def _path_point(reading: Reading, found: OrderPoint, name: str) -> Point:
    tip = f"order {found.order}, {name}: {plain(found.value, found.stderr)}"
    if whole := span(found.low, found.high, found.stderr):
        tip += f"\n{interval(reading, whole)}"
    if known(found.ess):
        tip += f"\neffective rows {count(found.ess)}"
    place = float(found.order), found.value
    # A whisker needs both ends.
    return Point(*place, found.low, found.high, tip) if whole else Point(*place, tip=tip)


def _path_table(target: str, both: Mapping[str, list[OrderPoint]]) -> Table:
    rows = [
        (name, str(p.order), *(plain(one, p.stderr) for one in (p.value, p.low, p.high)), count(p.ess))
        for name, path in both.items() for p in path
    ]  # fmt: skip
    return Table(
        f"Order path of {target}", ("", "order", "value", "low", "high", "effective rows"), rows
    )
