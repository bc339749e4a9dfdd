"""The reference pages are what the table of options says, and the table is what commands and functions take."""

import importlib.util
import inspect
from dataclasses import fields
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import counterrank as cr
from counterrank.cli.main import main
from counterrank.common.errors import ConfigError
from counterrank.common.options import BESIDE, COMMANDS, OPTIONS, Reading, Request
from counterrank.io.options import _FORMS, ReadOptions

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def reference():
    spec = importlib.util.spec_from_file_location("reference", DOCS / "reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_fresh(reference):
    for page, make in reference.PAGES.items():
        assert (DOCS / "reference" / page).read_text() == make(), "run `python docs/reference.py`"


def test_help_shows_at_most_15_options_and_the_tables_beside_the_log_and_help_all_every_one():
    beside = {OPTIONS[option].spelled for option in BESIDE}
    for name, spec in COMMANDS.items():
        shown = [_options(name, word) for word in ("--help", "--help-all")]
        assert len(shown[0] - beside) <= 15 and shown[0] <= shown[1]
        assert all(
            option in CliRunner().invoke(main, [name, "--help-all"]).output for option in beside
        )
        assert shown[1] == {OPTIONS[one].spelled for one in spec.on_line}


def _options(name, word):
    text = CliRunner().invoke(main, [name, word]).output
    return {
        line.split()[0]
        for line in text.split("Examples:")[0].splitlines()
        if line.startswith("  --")
    }


def test_all_commands_together_have_at_most_155_options():
    context = click.Context(main)
    commands = [main.get_command(context, name) for name in main.list_commands(context)]
    assert sum(isinstance(one, click.Option) for c in commands for one in c.params) <= 155


FUNCTIONS = {
    "evaluate": cr.evaluate, "validate": cr.validate, "abtest": cr.abtest, "plan": cr.plan,
    "learn": cr.learn, "curve": cr.position_curve,
}  # fmt: skip


@pytest.mark.parametrize("command", FUNCTIONS)
def test_defaults_are_those_of_the_python_functions(command):
    spec = COMMANDS[command]
    signature = inspect.signature(FUNCTIONS[command]).parameters
    for name in spec.options:
        option = OPTIONS[name]
        if name in signature and signature[name].default is not inspect.Parameter.empty:
            default = spec.defaults.get(name, option.default)
            assert (signature[name].default or None) == (default or None), name


@pytest.mark.parametrize("command", FUNCTIONS)
def test_every_option_reaches_the_python_function(command):
    requests = Request if command == "evaluate" else Reading
    known = {
        *inspect.signature(FUNCTIONS[command]).parameters,
        *(one.name for one in fields(requests)),
    }
    wanted = {name for name in COMMANDS[command].options if not OPTIONS[name].local}
    assert wanted <= known


def test_the_arguments_of_evaluate_are_fields_of_its_request_and_the_reader_knows_the_reading():
    explicit = {*inspect.signature(cr.evaluate).parameters} - {"log", "further"}
    assert explicit <= {one.name for one in fields(Request)}
    # How a log is opened, which concerns no reader.
    opening = {"format", "engine"}
    assert {one.name for one in fields(Reading)} - opening <= {
        *ReadOptions.__dataclass_fields__,
        *_FORMS,
    }


@pytest.mark.parametrize(
    "near, meant", [("segment", "segments"), ("levle", "level"), ("unti", "unit")]
)
def test_unknown_keywords_are_refused_with_the_nearest_name(near, meant):
    for work in (cr.evaluate, cr.plan, lambda log, **more: cr.abtest(log, "arm", **more)):
        with pytest.raises(
            ConfigError, match=f"there is no option '{near}' \\(did you mean '{meant}'"
        ):
            work("log.parquet", **{near: "x"})
