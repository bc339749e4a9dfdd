"""Results of every command: the same five methods, read back from their files, explained, and as their schemas say."""

import json
import re
from html import unescape
from pathlib import Path

import jsonschema
import pytest
from tests.report import commands

import counterrank as cr
from counterrank.common.errors import ConfigError
from counterrank.common.records import printed
from counterrank.report import html
from counterrank.report.explanation import MOST_LINES, explained, repro
from counterrank.report.forest import STATES, Forest
from counterrank.report.stored_results import KINDS

SCHEMAS = Path(__file__).parents[2] / "docs" / "reference" / "schemas"


@pytest.fixture(scope="module")
def results():
    return commands.results()


def test_every_kind_of_result_is_tried(results):
    assert {one.NAME for one in KINDS.values()} == set(results)


@pytest.mark.parametrize("name", [one.NAME for one in KINDS.values()])
def test_the_five_and_back_again(results, name, tmp_path):
    result = results[name]
    result.save(tmp_path / "saved.json")
    back = cr.load(tmp_path / "saved.json")
    assert back.SCHEMA == result.SCHEMA and back.NAME == name
    assert back.summary() == result.summary() and len(result.summary()) > 20
    assert back.table.equals(result.table) and len(result.table) > 0
    assert (
        result.to_html(tmp_path / "page.html").startswith("<!")
        and back.to_html() == result.to_html()
    )
    assert back.plot().axes
    back.to_json(tmp_path / "again.json")
    assert cr.load(tmp_path / "again.json").to_dict() == back.to_dict()


@pytest.mark.parametrize("name", [one.NAME for one in KINDS.values()])
def test_what_is_written_is_what_its_schema_says(results, name):
    result = results[name]
    schema = json.loads((SCHEMAS / f"{'-'.join(result.SCHEMA.split('/')[1:])}.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    written = json.loads(result.to_json())
    jsonschema.validate(written, schema)
    for key in [*written]:
        damaged = {one: value for one, value in written.items() if one != key}
        if key in schema["required"]:
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate(damaged, schema)


#: What every finding says, wherever it stands; and the names that version 1 had for some of it.
KEYS = {"code", "status", "kind", "about", "text", "cause", "remedies", "examples"}
OLDER = {"code": "check", "text": "found", "remedies": "ways"}


def with_findings(written, change):
    """Return the JSON of a result with every finding changed."""
    if isinstance(written, list):
        return [with_findings(entry, change) for entry in written]
    if not isinstance(written, dict):
        return written
    whole = {key: with_findings(entry, change) for key, entry in written.items()}
    return change(whole) if {"code", "status"} <= whole.keys() else whole


@pytest.mark.parametrize("name", [one.NAME for one in KINDS.values()])
def test_findings_have_one_set_of_keys_and_files_of_version_1_are_read(results, name, tmp_path):
    findings = []

    def older(finding):
        findings.append(finding)
        return {OLDER.get(key, key): value for key, value in finding.items()}

    written = json.loads(results[name].to_json())
    past = with_findings(written, older)
    assert all(KEYS <= finding.keys() for finding in findings)
    assert findings or name in ("validation", "plan", "learned policy")
    past["schema"] = past["schema"].rpartition("/")[0] + "/1"
    (tmp_path / "past.json").write_text(json.dumps(past))
    now = KINDS[written["schema"]].from_dict(written)
    assert cr.load(tmp_path / "past.json").to_dict() == now.to_dict()


@pytest.mark.parametrize("name", [one.NAME for one in KINDS.values()])
def test_explained_in_ten_lines(results, name):
    lines = explained(results[name])
    assert 2 <= len(lines) <= MOST_LINES and lines[-2].startswith("It does not say")
    assert lines[-1].startswith("Next: ")


def test_a_policy_file_is_served_and_has_its_result_inside(results, tmp_path):
    learned, plan = results["learned policy"], results["plan"]
    learned.save(tmp_path / "policy.json")
    assert cr.load_policy(tmp_path / "policy.json").kind == learned.policy.kind
    assert cr.load(tmp_path / "policy.json").certified == learned.certificate.certified
    plan.save(tmp_path / "explore.json")
    assert cr.load_policy(tmp_path / "explore.json").text == cr.parse_policy(plan.spec).text
    assert cr.load(tmp_path / "explore.json").spec == plan.spec


def test_what_a_fault_report_has_names_nothing_of_the_log(results):
    found = repro(results["evaluation"])
    text = json.dumps(found)
    assert found["log"] == {"n": 900, "K": 2, "units": None} or found["log"]["n"] == 900
    assert found["options"]["segments"] == "1 given" and found["options"]["level"] == 0.95
    assert any(": " in code for code in found["findings"]) and "numpy" in found["libraries"]
    assert "secret" not in text and "mobile" not in text and "device" not in text
    value = results["evaluation"].estimate("b").value
    assert str(value) not in text and f"{value:.4f}" not in text
    for name in ("audit", "A/B test", "validation", "plan", "learned policy"):
        assert repro(results[name])["schema"] == results[name].SCHEMA


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "not valid JSON"),
        ("[]", "no result"),
        ('{"schema": "other/1"}', "its schema is 'other/1'"),
        ('{"schema": "counterrank/abtest/1"}', "damaged"),
        ('{"schema": "counterrank/audit/1", "audit": 3}', "damaged"),
        (None, "cannot read"),
    ],
)
def test_what_is_no_result_is_one_message(tmp_path, content, said):
    path = tmp_path / "file.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=said) as caught:
        cr.load(path)
    assert "file.json" in str(caught.value)


def test_the_command(results, tmp_path):
    from click.testing import CliRunner

    from counterrank.cli.main import main

    results["evaluation"].save(tmp_path / "r.json")
    told = CliRunner().invoke(main, ["explain", str(tmp_path / "r.json")])
    assert told.exit_code == 0 and len(told.output.strip().splitlines()) <= 10
    assert "b" in told.output and "It does not say" in told.output
    told = CliRunner().invoke(main, ["explain", "--repro", str(tmp_path / "r.json")])
    assert json.loads(told.output)["schema"] == "counterrank/evaluation/2"


def numbers_of(text: str) -> str:
    """The text with every kind of space as one, so that tables and sentences can be compared."""
    return re.sub(r"[\s\u00a0\u202f]+", " ", re.sub("<[^>]+>", " ", text)).replace("\\", "")


@pytest.mark.parametrize("name", [one.NAME for one in KINDS.values() if one.NAME != "audit"])
def test_headline_rows_terminal_markdown_and_notebook_agree(results, name):
    """Every cell of the picture, for every policy: its number, its interval and what to do, wherever they are told."""
    document = results[name].document()
    forest = next(block for block in document.blocks if isinstance(block, Forest))
    told = {
        "page": numbers_of(unescape(html.page(document))),
        "notebook": numbers_of(unescape(html.fragment(document))),
        "markdown": numbers_of(unescape(results[name].to_markdown())),
        "terminal": numbers_of(printed(results[name], 200)),
        "narrow": numbers_of(printed(results[name], 80)),
        "summary": numbers_of(results[name].summary()),
    }
    shown = [cell for line in forest.lines for cell in line.cells if cell is not None]
    assert shown and forest.lines[0].state
    for where, text in told.items():
        for line in forest.lines:
            assert numbers_of(line.label) in text, (where, line.label)
            assert STATES[line.state].badge in text, (where, line.state)
        for cell in shown:
            assert numbers_of(cell.shown) in text, (where, cell.shown)
            assert numbers_of(cell.reach) in text, (where, cell.reach)
    # The headline does to each policy what its badge says.
    pieces = getattr(document.title, "pieces", ())
    for line in forest.lines:
        verb = STATES[line.state].verb
        if (line.label,) in pieces and verb:
            before = "".join("".join(p) for p in pieces[: pieces.index((line.label,))])
            last = max(
                (before.rfind(state.verb), state.verb) for state in STATES.values() if state.verb
            )
            assert last[1] == verb, (line.label, document.title)


def test_the_picture_has_the_numbers_of_the_json(results):
    """Of every target, arm, pair and option; in per cent of the baseline where the picture is."""

    def drawn(name):
        forest = next(b for b in results[name].document().blocks if isinstance(b, Forest))
        return {line.label: line.cells[0] for line in forest.lines if line.cells[0] is not None}

    written = {name: json.loads(result.to_json()) for name, result in results.items()}
    chosen = written["evaluation"]["recommended"]
    for row in written["evaluation"]["lift"]:
        if chosen[row["target"]] == row["estimator"]:
            assert drawn("evaluation")[row["target"]].value == pytest.approx(100 * row["relative"])
    for row in written["A/B test"]["lifts"]:
        cell, relative = drawn("A/B test")[row["to"]], row["relative"]
        ends = [100 * relative[key] for key in ("value", "low", "high")]
        assert [cell.value, cell.low, cell.high] == pytest.approx(ends)
    learned = written["learned policy"]
    cell = drawn("learned policy")[learned["name"]]
    scale = 100 / learned["logger"]["value"]
    assert [cell.low, cell.value] == pytest.approx(
        [scale * learned["lift"][key] for key in ("low", "value")]
    )
    option = written["plan"]["options"][written["plan"]["chosen"]]
    forest = next(b for b in results["plan"].document().blocks if isinstance(b, Forest))
    # Several options may be of one kind; the one to serve stands first.
    assert forest.lines[0].state == "serve"
    assert forest.lines[0].cells[0].value == pytest.approx(-100 * option["cost"]["value"])
    for pair in written["validation"]["pairs"]:
        if pair["predicted"] is not None:
            cell = drawn("validation")[pair["to"]]
            assert cell.value == pytest.approx(100 * (pair["predicted"] / pair["base"] - 1))
            assert cell.second.value == pytest.approx(100 * (pair["earned"] / pair["base"] - 1))


@pytest.mark.parametrize("name", [kind.NAME for kind in KINDS.values()])
def test_every_head_and_button_of_a_page_has_a_name(results, name, tmp_path):
    results[name].to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert not re.findall(r"<th[^>]*></th>", page)
    for attributes, content in re.findall(r"<button([^>]*)>(.*?)</button>", page, flags=re.S):
        visible = re.sub(r'<span aria-hidden="true">.*?</span>|<[^>]*>', "", content).strip()
        label = re.search(r'aria-label="([^"]*)"', attributes)
        # Who speaks to a page says what is seen on a button.
        assert visible in unescape(label[1] if label else visible) and (visible or label)
