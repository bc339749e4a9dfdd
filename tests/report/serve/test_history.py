"""Runs over time: what changed, which intervals held, and outcomes kept beside the runs."""

import json
import math
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.report import sample

from counterrank.errors import ConfigError
from counterrank.estimators import Estimate, Lift
from counterrank.report.serve import make_server, record
from counterrank.report.serve.app import Server
from counterrank.report.serve.pages import history as shown
from counterrank.report.serve.store import MeasuredOutcome, Store, read_outcomes


def test_an_outcome_stands_beside_its_run_and_leaves_it_alone(tmp_path: Path):
    run = tmp_path / "a.json"
    run.write_text(json.dumps(sample.model()))
    before = run.read_bytes()
    beside = record(run, 1.3, 0.01, "personalised")
    record(run, 1.1, 0.02, "clickbait")
    assert run.read_bytes() == before and beside.name == "a.outcome.json"
    assert read_outcomes(beside) == {
        "personalised": MeasuredOutcome(1.3, 0.01),
        "clickbait": MeasuredOutcome(1.1, 0.02),
    }
    assert Store.of(tmp_path).outcomes()[("a.json", "clickbait")].earned == 1.1
    assert [entry.name for entry in Store.of(tmp_path).entries()] == ["a.json"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": "nobody"}, "known: personalised"),
        ({"target": None}, "several targets"),
        ({"earned": math.nan}, "a number"),
        ({"stderr": -1.0}, "0 or more"),
        ({"run": "none.json"}, "there is no file"),
        ({"run": "notes.json"}, "no evaluation"),
    ],
)
def test_a_wrong_outcome_is_refused(tmp_path: Path, change, message):
    (tmp_path / "a.json").write_text(json.dumps(sample.model()))
    (tmp_path / "notes.json").write_text("{}")
    given = {"run": "a.json", "earned": 1.0, "stderr": 0.0, "target": "clickbait", **change}
    with pytest.raises(ConfigError, match=message):
        record(tmp_path / given.pop("run"), **given)
    assert {path.name for path in tmp_path.iterdir()} == {"a.json", "notes.json"}


def predicted_as(value: float, low: float, high: float, level: float) -> Estimate:
    lift = Lift(0.0, 0.1, -0.2, 0.2)
    at = {"ends": (low, high)}
    return Estimate("new", "ips", value, 0.2, (), 100.0, 1000, level, lift, **at)


def test_a_right_interval_holds_as_often_as_its_level_says_also_for_noisy_outcomes():
    """4,000 pairs; a rate off by 5 binomial errors or more would fail (false alarms below 1e-6)."""
    rng = np.random.default_rng(7)
    runs = 4000
    for level, z in ((0.95, 1.959964), (0.8, 1.281552)):
        predicted, earned = rng.normal(1, 0.2, runs), rng.normal(1, 0.3, runs)
        found = [
            MeasuredOutcome(e, 0.3).held(predicted_as(p, p - z * 0.2, p + z * 0.2, level))
            for p, e in zip(predicted, earned, strict=True)
        ]
        assert abs(np.mean(found) - level) < 5 * math.sqrt(level * (1 - level) / runs)


def test_no_interval_neither_holds_nor_fails():
    assert MeasuredOutcome(1.0, 0.1).held(predicted_as(1.0, math.nan, math.nan, 0.95)) is None


def page(tmp_path: Path) -> str:
    store = Store.of(tmp_path)
    return shown(store.entries(), store.outcomes())


def test_nights_are_ordered_by_the_day_in_their_name_and_changes_are_told(tmp_path: Path):
    second = sample.model()
    second["log"] = {**second["log"], "n": 10 * second["log"]["n"], "fingerprint": "other"}
    second["verdict"] = {"level": "insufficient", "reasons": [], "targets": {}}
    # Written first, but of the later night.
    (tmp_path / "2026-01-02.json").write_text(json.dumps(second))
    (tmp_path / "2026-01-01.json").write_text(json.dumps(sample.model()))
    text = page(tmp_path)
    assert text.index(">2026-01-02.json<") < text.index(
        ">2026-01-01.json<"
    )  # the newest first in the table
    assert "→ insufficient" in text and "rankings</td>" in text


def test_the_same_rows_twice_are_called_so(tmp_path: Path):
    for name in ("2026-01-01.json", "2026-01-02.json"):
        (tmp_path / name).write_text(json.dumps(sample.model()))
    assert "the same rows as before" in page(tmp_path)


def test_the_same_rows_under_other_targets_are_the_same_rows(tmp_path: Path):
    for day, fingerprint in ((1, "of these targets"), (2, "of others")):
        model = sample.model()
        model["log"] |= {"fingerprint": fingerprint, "rows_fingerprint": "the same"}
        (tmp_path / f"2026-01-0{day}.json").write_text(json.dumps(model))
    assert "the same rows as before" in page(tmp_path)


def test_another_version_is_told(tmp_path: Path):
    for day, version in ((1, "0.1.0"), (2, "0.2.0")):
        model = sample.model()
        model["provenance"] = {**model["provenance"], "counterrank": version}
        (tmp_path / f"2026-01-0{day}.json").write_text(json.dumps(model))
    assert "counterrank 0.1.0 → 0.2.0" in page(tmp_path)


def test_a_policy_has_the_colour_of_its_report_and_doubtful_nights_are_hollow(tmp_path: Path):
    model = sample.model()
    model["verdict"] = {"level": "reliable", "reasons": [], "targets": {}}
    second = "clickbait"
    (tmp_path / "2026-01-01.json").write_text(json.dumps(model))
    record(tmp_path / "2026-01-01.json", 1.0, 0.1, second)
    text = page(tmp_path)
    of_second = text[text.index(f"<h2>{second}</h2>") :]
    assert "mark t1" in of_second and "mark t0" not in of_second and "mark today" in of_second
    assert "mark t1 hollow" not in of_second
    model["verdict"] = {"level": "directional", "reasons": [], "targets": {}}
    (tmp_path / "2026-01-01.json").write_text(json.dumps(model))
    assert "mark t1 hollow" in page(tmp_path)


def test_how_many_intervals_held_is_counted_over_the_last_twelve(tmp_path: Path):
    model = sample.model()
    best = next(e for e in model["estimates"] if e["target"] == "clickbait")
    for day in range(1, 15):
        run = tmp_path / f"2026-01-{day:02d}.json"
        run.write_text(json.dumps(model))
        # The first two are old; of the last twelve one misses.
        record(
            run,
            best["value"] if day not in (1, 2, 9) else best["high"] + 10 * best["stderr"],
            0.0,
            "clickbait",
        )
    assert "11 of the last 12 intervals held, of those with a known outcome." in page(tmp_path)


def test_names_are_escaped(tmp_path: Path):
    model = sample.model()
    text = json.dumps(model).replace("clickbait", "<script>x</script>")
    (tmp_path / "a.json").write_text(text)
    assert "<script>x" not in page(tmp_path)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with make_server(tmp_path) as found:
        thread = threading.Thread(target=found.serve_forever, daemon=True)
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def exchange(server: Server, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=30) as line:
        line.sendall(request)
        line.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: line.recv(4096), b""))


def test_a_malformed_target_gets_400(server: Server):
    host = f"Host: 127.0.0.1:{server.server_port}\r\n\r\n".encode()
    assert exchange(server, b"GET http://[ HTTP/1.1\r\n" + host).split()[1] == b"400"
    assert exchange(server, b"GET /history HTTP/1.1\r\n" + host).split()[1] == b"200"


def test_a_reader_who_hangs_up_is_no_error(server: Server, capfd):
    try:
        raise BrokenPipeError
    except BrokenPipeError:
        server.handle_error(None, ("127.0.0.1", 1))
    assert capfd.readouterr().err == ""


def test_silent_connections_time_out(server: Server, monkeypatch):
    monkeypatch.setattr(server.RequestHandlerClass, "timeout", 0.2)
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=30) as line:
        line.sendall(b"GET / HT")
        assert line.recv(1) == b""


def test_lift_and_interval_of_a_night_have_one_unit(tmp_path: Path):
    model = sample.model()
    run = tmp_path / "2026-01-01.json"
    run.write_text(json.dumps(model))
    assert ">+6.9\u202f% to +9.8\u202f%<" in page(tmp_path) and ">+8.3\u202f%<" in page(tmp_path)
    for lift in model["lift"]:
        lift.pop("relative"), lift.pop("relative_low"), lift.pop("relative_high")
    run.write_text(json.dumps(model))
    assert ">+0.082 to +0.118<" in page(tmp_path) and ">+0.100<" in page(tmp_path)
