"""Metrics of rankings: rewards by position, functions of the page, ratios, and guardrails."""

from counterrank.metrics.functions import (
    IMPRESSIONS,
    PageFunction,
    metric_functions,
    page_metric,
    register_metric,
)
from counterrank.metrics.guardrails import Guardrail, parse_guardrail
from counterrank.metrics.measures import constant, measured
from counterrank.metrics.metric import (
    SINGLE,
    Measure,
    Metric,
    Metrics,
    parse_metric,
)

__all__ = [
    "IMPRESSIONS",
    "SINGLE",
    "Guardrail",
    "Measure",
    "Metric",
    "Metrics",
    "PageFunction",
    "constant",
    "measured",
    "metric_functions",
    "page_metric",
    "parse_guardrail",
    "parse_metric",
    "register_metric",
]
