"""The audit: each check of the log as a line."""

import json
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from counterrank.report.charts.svg import tag
from counterrank.report.reading import Reading, rows
from counterrank.report.sections import parts

SIGNS = {"failed": "✗", "warned": "!", "passed": "✓", "skipped": "·"}


QUIET = ("passed", "skipped")


def section(reading: Reading) -> parts.Section | None:
    """Return the checks, the troubling ones first."""
    checks = rows(reading.model.get("audit"))
    if not checks:
        return None
    order = list(SIGNS)
    checks = sorted(
        checks, key=lambda c: order.index(c["status"]) if c.get("status") in order else len(order)
    )
    numbers = {status: sum(c.get("status") == status for c in checks) for status in order}
    lead = ", ".join(f"{number} {status}" for status, number in numbers.items() if number) + "."
    calm = [check for check in checks if check.get("status") in QUIET]
    body = Markup("")
    if len(calm) < len(checks):
        body += tag("ul", *(_line(check) for check in checks if check not in calm), class_="checks")
    if calm:
        name = (
            f"{len(calm)} checks passed or were not needed"
            if body
            else f"All {len(calm)} checks: nothing to worry about"
        )
        lines = tag("ul", *(_line(check) for check in calm), class_="checks calm")
        body += tag("details", tag("summary", name), lines, class_="twin")
    return parts.Section("audit", "Audit of the log", lead, body)


def _line(check: Mapping[str, Any]) -> Markup:
    status = str(check.get("status"))
    name = str(check.get("check") or "check").replace("_", " ").replace("-", " ")
    head = tag(
        "p", tag("strong", name), " ", tag("span", status, class_="status"), class_="check-name"
    )
    lines = [tag("p", check["found"])] if check.get("found") else []
    for key, title in (("cause", "Likely cause: "), ("remedy", "Remedy: ")):
        if check.get(key):
            lines.append(tag("p", tag("em", title), check[key]))
    examples = check.get("examples")
    if examples:
        shown = "\n".join(
            item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)
            for item in examples
        )
        lines.append(
            tag(
                "details",
                tag("summary", "Examples"),
                tag("pre", shown, tabindex="0"),
                class_="twin",
            )
        )
    sign = tag("span", SIGNS.get(status, "·"), class_="sign", aria_hidden="true")
    return tag(
        "li",
        sign,
        tag("div", head, *lines),
        class_=f"check {status if status in SIGNS else 'skipped'}",
    )
