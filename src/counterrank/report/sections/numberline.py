"""Today's policy and every target on one axis."""

from markupsafe import Markup

from counterrank.report.charts import rows as charts
from counterrank.report.numbers import known, percent, plain, span
from counterrank.report.reading import Reading
from counterrank.report.sections import parts
from counterrank.report.sentences import comparison, interval, level


def drawing(reading: Reading) -> charts.Drawing:
    """Return today's value and each policy's with its interval."""
    rows = [*_logging(reading), *(_target(reading, target) for target in reading.targets)]
    reward, ranking = reading.words()
    today = reading.log.get("value")
    axis = charts.Axis(
        f"{reward} per {ranking}",
        line=today if known(today) else None,
        line_name="today",
        region=_region(reading),
    )
    return charts.Drawing(rows, axis, "Values of all policies with intervals")


def section(reading: Reading) -> parts.Section | None:
    """Return the number line with its table."""
    reward, ranking = reading.words()
    region = _region(reading)
    aid = f"Each mark is a value, each bar its {level(reading)} interval."
    if region is not None:
        aid += (
            f" Inside the shaded region the lift is below {percent(reading.practical)} and of "
            "no practical interest."
        )
    figure = parts.figure(
        f"{reward.capitalize()} per {ranking}", aid, drawing(reading).svg(), _table(reading)
    )
    if not figure:
        return None
    return parts.Section(
        "values", "What each policy earns", "", parts.grid(figure) + _comparisons(reading)
    )


def _logging(reading: Reading) -> list[charts.Row]:
    value, error = reading.log.get("value"), reading.log.get("stderr")
    if not known(value):
        return []
    reach = 1.96 * error if known(error) else None
    low, high = (value - reach, value + reach) if reach is not None else (None, None)
    shown = plain(value, error)
    tip = f"today's policy\n{shown} ± {plain(error, error)}\nmeasured, not estimated"
    return [
        charts.Row(label="today's policy", note="measured", value=value, low=low, high=high, shown=shown, tip=tip,
                   look="today", shape=2)
    ]  # fmt: skip


def _target(reading: Reading, target: str) -> charts.Row:
    best, lift, style = reading.best(target), reading.lift(target), parts.style_of(reading, target)
    error = best.get("stderr")
    change = (
        percent(lift["relative"], sign=True)
        if known(lift.get("relative"))
        else plain(lift.get("value"), lift.get("stderr"), sign=True)
    )
    tip = (
        f"{target} by {best.get('estimator')}\n{plain(best.get('value'), error)} ± "
        f"{plain(error, error)}\n"
        f"{interval(reading, span(best.get('low'), best.get('high'), error))}\nlift {change}"
    )
    return charts.Row(
        label=target,
        note=f"by {best.get('estimator')}",
        value=best.get("value"),
        low=best.get("low"),
        high=best.get("high"),
        shown=f"{plain(best.get('value'), error)} ({change})",
        tip=tip,
        look=style.look,
        shape=style.shape,
        faded=reading.evidence(target) == "insufficient",
    )


def _region(reading: Reading) -> tuple[float, float] | None:
    today, practical = reading.log.get("value"), reading.practical
    if not known(today) or practical is None:
        return None
    return today * (1 - practical), today * (1 + practical)


def _table(reading: Reading) -> Markup:
    head = (
        "policy",
        "value",
        "std. error",
        "low",
        "high",
        "lift",
        "lift low",
        "lift high",
        "relative",
    )
    body = [("today's policy", *_cells(reading.log, {}))]
    body += [
        (target, *_cells(reading.best(target), reading.lift(target))) for target in reading.targets
    ]
    return parts.table(head, body)


def _cells(row: object, lift: object) -> tuple[str, ...]:
    from counterrank.report.reading import table

    value, change = table(row), table(lift)
    error, spread = value.get("stderr"), change.get("stderr")
    return (
        plain(value.get("value"), error), plain(error, error), plain(value.get("low"), error),
        plain(value.get("high"), error), plain(change.get("value"), spread, sign=True),
        plain(change.get("low"), spread, sign=True), plain(change.get("high"), spread, sign=True),
        percent(change.get("relative"), sign=True),
    )  # fmt: skip


def _comparisons(reading: Reading) -> Markup:
    from counterrank.report.charts.svg import tag
    from counterrank.report.reading import rows

    found = [
        sentence
        for row in rows(reading.model.get("comparisons"))
        if (sentence := comparison(reading, row))
    ]
    if not found:
        return Markup("")
    if len(found) == 1:
        return tag("p", found[0])
    return tag("ul", *(tag("li", sentence) for sentence in found), class_="plain-list")
