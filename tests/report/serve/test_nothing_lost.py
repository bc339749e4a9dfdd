"""Outcomes and runs that must not get lost: parallel writers, damaged and newer files, links, one
bad run among many.
"""

import http.client
import json
import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
from tests.report import sample

from counterrank.errors import ConfigError, OutputError
from counterrank.report.serve import make_server, record, store
from counterrank.report.serve.pages import history, listing
from counterrank.report.serve.store import Store, read_outcomes


def several(targets: int) -> dict:
    """A run with so many targets."""
    model = sample.model()
    one = model["estimates"][0]
    model["estimates"] = [{**one, "target": f"t{i}"} for i in range(targets)]
    model["recommended"] = {f"t{i}": one["estimator"] for i in range(targets)}
    return model


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "2026-01-31.json"
    path.write_text(json.dumps(several(24)))
    return path


def write_some(run: Path, numbers: list[int]) -> None:
    for i in numbers:
        record(run, float(i), 0.0, f"t{i}")


def test_parallel_outcomes_are_all_kept(run: Path):
    """Three processes and threads within each: a lock of the file holds off both."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: record(run, float(i), 0.0, f"t{i}"), range(12)))
    context = get_context("fork")
    parts = [
        context.Process(target=write_some, args=(run, list(range(12 + i, 24, 3)))) for i in range(3)
    ]
    for part in parts:
        part.start()
    for part in parts:
        part.join(60)
    beside = run.with_name("2026-01-31.outcome.json")
    assert {name: one.earned for name, one in read_outcomes(beside).items()} == {
        f"t{i}": float(i) for i in range(24)
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"schema": "counterrank/outcome/1", "outcomes": [{"tar', "is damaged"),
        ('{"schema": "counterrank/outcome/2", "outcomes": []}', "counterrank/outcome/2"),
        ('{"schema": "counterrank/outcome/1", "outcomes": {"t0": 1}}', "would be lost"),
    ],
)
def test_an_outcome_file_that_cannot_be_read_is_not_replaced(run: Path, content, message):
    beside = run.with_name("2026-01-31.outcome.json")
    beside.write_text(content)
    with pytest.raises(ConfigError, match=message):
        record(run, 1.0, 0.0, "t0")
    assert beside.read_text() == content


def test_what_others_wrote_into_an_outcome_stays(run: Path):
    beside = record(run, 1.0, 0.1, "t0")
    told = json.loads(beside.read_text())
    told["outcomes"][0]["note"] = "holiday week"
    beside.write_text(json.dumps(told))
    record(run, 2.0, 0.1, "t1")
    assert json.loads(beside.read_text())["outcomes"][0]["note"] == "holiday week"


def test_an_outcome_does_not_follow_a_link(run: Path, tmp_path: Path):
    mine = tmp_path / "mine.txt"
    mine.write_text(json.dumps({"schema": store.OUTCOME, "outcomes": []}))
    before = mine.read_bytes()
    run.with_name("2026-01-31.outcome.json").symlink_to(mine)
    with pytest.raises(OutputError, match="a link"):
        record(run, 1.0, 0.0, "t0")
    assert mine.read_bytes() == before


def test_the_newest_runs_are_shown_and_older_ones_open_by_name(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(store, "MOST_FILES", 3)
    model = json.dumps(sample.model())
    for day in range(1, 9):
        (tmp_path / f"2026-01-0{day}.json").write_text(model)
        record(tmp_path / f"2026-01-0{day}.json", 1.0, 0.0, "clickbait")
    # A name without a day, written long ago, sorts last by name.
    (tmp_path / "zzz.json").write_text(model)
    os.utime(tmp_path / "zzz.json", (1e9, 1e9))
    found = Store.of(tmp_path)
    assert {entry.name for entry in found.entries()} == {f"2026-01-0{d}.json" for d in (6, 7, 8)}
    assert len(found.outcomes()) == 3 and found.get("zzz.json") is not None
    page = listing(found.entries(), "runs", older=found.older())
    assert "6 older files are not listed" in page


def test_one_bad_run_does_not_hide_the_others(tmp_path: Path):
    (tmp_path / "2026-01-01.json").write_text(json.dumps(sample.model()))
    # An integer of 400 digits is JSON, and no number that a chart can draw.
    huge = sample.model()
    huge["log"]["n"] = 10**399
    huge["lift"] = [{**row, "value": 10**399} for row in huge["lift"]]
    (tmp_path / "2026-01-02.json").write_text(json.dumps(huge))
    found = Store.of(tmp_path)
    assert "2026-01-01.json" in history(found.entries(), found.outcomes())
    page = listing(found.entries(), "runs", found.others())
    assert "2026-01-01.json" in page and "2026-01-02.json" in page and "damaged file" in page


def test_two_hundred_clients_at_once_are_all_answered(tmp_path: Path):
    """They connect before the first is taken: the queue must hold them."""
    with make_server(tmp_path) as server:
        clients = []
        for _ in range(200):
            # Where the queue is full this waits for somebody who takes the first, and nobody does yet.
            clients.append(socket.create_connection(("127.0.0.1", server.server_port), timeout=10))
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            for one in clients:
                one.settimeout(60)
                connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
                connection.sock = one
                connection.request("GET", "/")
                assert connection.getresponse().status == 200
                connection.close()
        finally:
            server.shutdown()
            thread.join()
