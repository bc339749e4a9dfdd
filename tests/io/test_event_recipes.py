"""The jobs on the page about events, run on small files."""

import csv
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from counterrank.cli.main import main

PAGE = Path(__file__).parents[2] / "docs/howto/get-data-in.md"
JOBS = re.findall(r"\*\*(\w+)\.\*\* .*?```toml\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)


def snowplow(folder):
    with (folder / "impressions.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow("request_id,rank,sku,p,new,domain_userid,derived_tstamp".split(","))
        for i in reversed(range(40)):
            for k, sku in enumerate(("a", "b")):
                rows.writerow(
                    [f"q{i}", k + 1, sku, 0.5, 0.25 + 0.5 * k, f"u{i}", f"2026-10-01 10:{i:02}:00"]
                )
    with (folder / "events.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow("event_id,event_name,request_id,item_sku,collector_tstamp".split(","))
        for i in range(0, 40, 2):
            moment = f"2026-10-01 10:{i:02}:30" if i < 20 else "2026-10-01 19:00:00"
            rows.writerow([f"e{i}", "product_click", f"q{i}", "b", moment])
            rows.writerow([f"e{i}", "product_click", f"q{i}", "b", moment])
        rows.writerow(["t1", "transaction", "q2", "a", "2026-10-01 10:05:00"])
    # Weights of both items multiply to 0.25 * 0.75 / 0.25; ten clicks fall into the window.
    return {"clicks": 0.75 * 10 / 40, "orders": 0.75 * 1 / 40}


def segment(folder):
    shown = [
        {"list_view_id": f"v{i}", "product_ids": ["a", "b"], "propensities": [0.5, 0.5],
         "new": [0.25, 0.75], "anonymous_id": f"u{i}"}
        for i in range(40)
    ]  # fmt: skip
    tracks = [
        {"event": "Product Clicked", "list_view_id": f"v{i}", "product_id": "a"} for i in range(8)
    ]
    tracks.append(
        {
            "event": "Order Completed",
            "list_view_id": "v3",
            "product_id": "b",
            "price": 2.5,
            "quantity": 2,
        }
    )
    for name, rows in (("product_list_viewed", shown), ("tracks", tracks)):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(text)
    return {"clicks": 0.75 * 8 / 40, "revenue": 0.75 * 5 / 40}


@pytest.mark.parametrize(("name", "make"), [("Snowplow", snowplow), ("Segment", segment)])
def test_the_job_on_the_page(tmp_path, name, make):
    expected = make(tmp_path)
    (tmp_path / "job.toml").write_text('json = "out.json"\n' + dict(JOBS)[name])
    result = CliRunner().invoke(main, ["run", str(tmp_path / "job.toml")])
    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "out.json").read_text())
    values = {one["name"]: one["estimates"][0]["value"] for one in found["metrics"]}
    assert values == pytest.approx(expected, rel=1e-12)
    assert found["log"]["events"]["orphans"] == 0
