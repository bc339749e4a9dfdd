"""The example on the page of behaviour models prints what the page says."""

import doctest
import importlib.util
from pathlib import Path

spec = importlib.util.spec_from_file_location("doc_blocks", Path(__file__).with_name("conftest.py"))
tools = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tools)


def test_the_hidden_behaviours_are_found():
    page = "docs/user-kinds.md"
    (line, code), *others = tools.blocks(page, "pycon")
    assert not others
    example = doctest.DocTestParser().get_doctest(code, {}, page, str(tools.ROOT / page), line)
    done = doctest.DocTestRunner().run(example)
    assert done.attempted >= 10 and done.failed == 0
