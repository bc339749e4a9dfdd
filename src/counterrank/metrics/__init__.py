"""Metrics of rankings: rewards by position, functions of the page, ratios, and guardrails."""

from counterrank.metrics.guardrails import Guardrail, parse_guardrail
from counterrank.metrics.measures import (
    IMPRESSIONS,
    SINGLE,
    Measure,
    PageFunction,
    constant,
    measured,
    metric_functions,
    page_metric,
    register_metric,
)
from counterrank.metrics.metric import Metric, Metrics, parse_metric

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
