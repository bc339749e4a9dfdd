"""The local page: loopback only, read only, known names only."""

import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.report import sample

from counterrank.errors import ConfigError
from counterrank.report.serve import make_server, pages
from counterrank.report.serve.app import Server
from counterrank.report.serve.store import Store, record


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    outer = tmp_path_factory.mktemp("outer")
    folder = outer / "results"
    (folder / "week 2").mkdir(parents=True)
    (folder / "first.json").write_text(json.dumps(sample.model()))
    other = sample.model(today=1.25)
    other["log"] |= {"fingerprint": "another", "rows_fingerprint": "another"}
    other["estimates"] = other["estimates"][:-1]
    (folder / "week 2" / "<b>second.json").write_text(json.dumps(other))
    (folder / "notes.json").write_text('{"schema": "something else", "secret": "tell-nobody"}')
    (folder / "broken.json").write_text("{")
    (outer / "secret.json").write_text(json.dumps({**sample.model(), "secret": "tell-nobody"}))
    (folder / "link.json").symlink_to(outer / "secret.json")
    with make_server(folder) as found:
        thread = threading.Thread(target=found.serve_forever, daemon=True)
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def ask(
    server: Server, path: str, method: str = "GET", host: str | None = None
) -> tuple[int, str, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=120)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", host if host is not None else f"127.0.0.1:{server.server_port}")
    connection.endheaders()
    answer = connection.getresponse()
    found = answer.status, answer.read().decode(), dict(answer.getheaders())
    connection.close()
    return found


def test_it_listens_on_loopback_alone(server: Server) -> None:
    assert server.server_address[0] == "127.0.0.1"


def test_the_list_shows_results_only(server: Server) -> None:
    status, page, headers = ask(server, "/")
    assert status == 200
    assert "first.json" in page and "week 2/&lt;b&gt;second.json" in page
    assert all(name not in page for name in ("notes.json", "broken.json", "link.json", "secret"))
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["Cache-Control"] == "no-store"


def test_a_report_is_shown_with_a_way_back(server: Server) -> None:
    status, page, _ = ask(server, "/report?name=first.json")
    assert status == 200 and "personalised beats today" in page and 'href="/"' in page


@pytest.mark.parametrize("name", [
    "../secret.json", "..%2fsecret.json", "%2e%2e/secret.json", "link.json", "/etc/passwd", "notes.json", "broken.json",
    "week 2/../first.json", "", "%00", "first.json%00.html",
])  # fmt: skip
def test_other_names_are_not_found(server: Server, name: str) -> None:
    status, page, _ = ask(server, f"/report?name={quote(name, safe='%')}")
    assert status == 404 and "tell-nobody" not in page


@pytest.mark.parametrize(
    "path", ["/../secret.json", "/first.json", "/week%202/", "/report/../../secret.json"]
)
def test_files_and_folders_are_not_served(server: Server, path: str) -> None:
    status, page, _ = ask(server, path)
    assert status == 404 and "tell-nobody" not in page


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_only_reading_is_possible(server: Server, method: str) -> None:
    assert ask(server, "/", method)[0] == 501


def test_head_sends_no_body(server: Server) -> None:
    status, page, headers = ask(server, "/", "HEAD")
    assert status == 200 and page == "" and int(headers["Content-Length"]) > 1000


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "", "127.0.0.1", "127.0.0.1.evil.example"]
)
def test_other_hosts_are_refused(server: Server, host: str) -> None:
    status, page, _ = ask(server, "/", host=host)
    assert status == 403 and "first.json" not in page


def test_localhost_is_welcome(server: Server) -> None:
    assert ask(server, "/", host=f"localhost:{server.server_port}")[0] == 200


def test_two_evaluations_are_compared(server: Server) -> None:
    second = quote("week 2/<b>second.json", safe="")
    status, page, _ = ask(server, f"/compare?a=first.json&b={second}")
    assert status == 200
    assert "They used different data" in page and "Only in A: clickbait/iips" in page
    assert "<b>second" not in page
    same = ask(server, "/compare?a=first.json&b=first.json")[1]
    assert "Both used the same data" in same
    assert ask(server, "/compare?a=first.json&b=nothing")[0] == 404


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    from counterrank.report.serve.store import Store

    path = tmp_path / "r.json"
    path.write_text("{}")
    store = Store.of(tmp_path)
    assert store.entries() == []
    path.write_text(json.dumps(sample.model()))
    assert [entry.name for entry in store.entries()] == ["r.json"]


def test_a_missing_folder_and_a_taken_port_are_explained(server: Server, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no folder"):
        make_server(tmp_path / "nothing")
    with pytest.raises(ConfigError, match="cannot listen on port"):
        make_server(tmp_path, port=server.server_port)


def test_the_list_is_ordered_by_night_like_the_history(tmp_path: Path) -> None:
    # Written in the wrong order, as a copied folder is.
    for day in (2, 1):
        (tmp_path / f"2026-01-0{day}.json").write_text(json.dumps(sample.model()))
    text = pages.listing(Store.of(tmp_path).entries(), "runs")
    assert text.index(">2026-01-02.json<") < text.index(">2026-01-01.json<")


def test_a_comparison_tells_which_options_differ(tmp_path: Path) -> None:
    for name, level in (("a", 0.95), ("b", 0.9)):
        model = sample.model()
        model["provenance"] = {
            "counterrank": "0.1.0",
            "options": {"targets": ["a"], "level": level, "seed": 0},
        }
        (tmp_path / f"{name}.json").write_text(json.dumps(model))
    first, second = (Store.of(tmp_path).get(f"{name}.json") for name in "ab")
    assert first is not None and second is not None
    text = pages.compare(first, second)
    assert ">level</td>" in text and ">0.9</td>" in text and ">seed</td>" not in text


def test_a_difference_has_the_digits_of_what_it_is_between(tmp_path: Path) -> None:
    for name, error in (("a", 0.03), ("b", 0.03)):
        model = sample.model()
        model["log"] |= {"fingerprint": name, "rows_fingerprint": name}
        for estimate in model["estimates"]:
            estimate |= {"value": 2.1 if name == "a" else 2.2, "stderr": error}
        (tmp_path / f"{name}.json").write_text(json.dumps(model))
    first, second = (Store.of(tmp_path).get(f"{name}.json") for name in "ab")
    assert first is not None and second is not None
    text = pages.compare(first, second)
    # Both errors together are 0.042, which by itself would be told with two decimals.
    assert ">+0.100</td>" in text and ">0.042</td>" in text


#: What `learn --json` and `validate --json` write, in short.
LEARNED = {
    "schema": "counterrank/learning/1", "certified": True, "sentence": "Best of 4 <b>earns</b> more.", "name": "best",
    "grade": "free", "lift": {"value": 0.1, "stderr": 0.02, "low": 0.05}, "logger": {"value": 1.0},
    "path": [{"step": 0.5, "m": 2, "value": 0.1, "low": 0.05, "ess": 90}],
}  # fmt: skip
VALIDATED = {
    "schema": "counterrank/validation/1", "summary": {"pairs": 1},
    "pairs": [{"from": "a", "to": "b", "predicted": 1.0, "stderr": 0.1, "low": 0.8, "high": 1.2, "earned": 1.1,
               "earned_stderr": 0.1, "covered": True, "sign_right": True}],
}  # fmt: skip


def test_what_was_learned_and_validated_is_listed_with_its_page(tmp_path: Path) -> None:
    (tmp_path / "learned.json").write_text(json.dumps(LEARNED))
    (tmp_path / "arms.json").write_text(json.dumps(VALIDATED))
    (tmp_path / "cut.json").write_text(json.dumps({**LEARNED, "segments": [{"column": "x"}]}))
    with make_server(tmp_path) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            status, page, _ = ask(server, "/")
            assert status == 200 and "No results here" not in page
            assert "Best of 4 &lt;b&gt;earns&lt;/b&gt; more." in page and "1 of 1 intervals" in page
            for name, words in (("learned", "with a certificate"), ("arms", "Each arm, predicted")):
                assert f'href="/report?name={name}.json"' in page
                status, report, _ = ask(server, f"/report?name={name}.json")
                assert status == 200 and words in report and 'href="/"' in report
            status, report, _ = ask(server, "/report?name=cut.json")
            assert status == 500 and "is damaged" in report
            # Only evaluations have estimates to compare.
            assert ask(server, "/compare?a=learned.json&b=arms.json")[0] == 404
            assert "No results here yet" in ask(server, "/history")[1]
        finally:
            server.shutdown()
            thread.join()
    with pytest.raises(ConfigError, match="is no evaluation"):
        record(tmp_path / "learned.json", 1.0)
