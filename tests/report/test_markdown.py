"""The answer as Markdown: the same lines as the picture, and names that stay names."""

import json
import re
from typing import Any

import pytest
from tests.report import sample


@pytest.mark.parametrize("make", [sample.model, sample.six, sample.refused])
def test_every_policy_is_a_row_of_whole_tables(make: Any):
    text = sample.result(make()).to_markdown()
    for table in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
        bars = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(bars) == 1
    for estimate in sample.result(make()).estimates:
        assert estimate.target.replace("_", "\\_") in text


def test_numbers_and_states_are_those_of_the_picture(tmp_path):
    result = sample.result(sample.model())
    text = result.to_markdown(tmp_path / "answer.md")
    assert (tmp_path / "answer.md").read_text(encoding="utf-8") == text
    assert re.search(r"^\| ▲ Ship \| personalised .*\| ● \S*\+8\.3", text, re.MULTILINE)
    assert re.search(r"^\| ■ Stop \| clickbait .*\| ◆ −10\.0", text, re.MULTILINE)


def test_names_are_no_markup():
    evil = "<img src=x> | [a](http://b) **c**\n# d"
    model = json.dumps(sample.model()).replace("clickbait", json.dumps(evil)[1:-1])
    text = sample.result(json.loads(model)).to_markdown()
    assert "&lt;img src=x&gt; \\| \\[a\\](http:\\//b) \\*\\*c\\*\\*" in text
    for markup in ("<img", "[a]", "**c", "\n# d", "x&gt; | "):
        assert markup not in text
