"""Messages are data: codes that scripts can rely on, words for two kinds of readers."""

import ast
import copy
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import counterrank as cr
from counterrank.checks import CHECKS, REWARD_FINDINGS
from counterrank.cli.main import main
from counterrank.common import messages
from counterrank.common.errors import LogError, UnknownNameError
from counterrank.common.findings import TITLES
from counterrank.common.messages import Message, code_of, for_command, has, say
from counterrank.evaluation.verdict import CHECKS as JUDGED

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(cr.__file__).parent


def codes_in_source(kind: str) -> set[str]:
    """Every code of a `Message(...)` or `Finding(...)` in the source, also one given by a constant."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == kind):
                continue
            # A finding that is made anew from the fields of another has no code of its own.
            code = node.args[0] if node.args else None
            if isinstance(code, ast.Constant) and code.value:
                found.add(code.value)
            elif isinstance(code, ast.Name) and hasattr(messages, code.id):
                found.add(getattr(messages, code.id))
    return found


def test_every_code_is_listed_in_the_documentation_and_none_that_is_gone():
    page = (ROOT / "docs" / "reference" / "results.md").read_text()
    listed = set(re.findall(r"^\| `([a-z0-9-]+)` \|", page, flags=re.M))
    by_name = {"pbm", "click-model"}  # named after their estimators
    assert listed == codes_in_source("Message") | by_name | set(TITLES)


def test_every_check_has_a_title():
    known = {check.code for check in CHECKS} | {*REWARD_FINDINGS, *JUDGED}
    assert codes_in_source("Finding") | known <= set(TITLES)


def test_a_message_is_its_words_and_keeps_its_code_when_it_travels():
    said = Message("low-ess", "only 3 rows")
    assert said == "low-ess: only 3 rows" and said.code == "low-ess" and said.text == "only 3 rows"
    for there in (pickle.loads(pickle.dumps(said)), copy.deepcopy(said)):
        assert there == said and there.code == said.code and there.text == said.text
    assert has(["other", said], "low-ess") and not has(["low-ess: by hand"], "low-ess")
    assert code_of("somebody's words") == ""


def test_flags_have_codes_in_python_and_in_json():
    rng = np.random.default_rng(0)
    log = cr.RankingLog(
        action=rng.integers(2, size=(40, 2)),
        reward=np.ones((40, 2)),
        propensity=np.full((40, 2), 0.5),
    )
    found = cr.IPS().estimate(log, np.full((40, 2), 0.01))
    assert "low-ess" in [code_of(flag) for flag in found.flags]
    told = found.to_dict()
    assert len(told["flags"]) == len(told["flag_codes"]) and "low-ess" in told["flag_codes"]


def test_options_are_written_for_their_reader():
    assert say("--time", "COLUMN") == "--time COLUMN (time='COLUMN' in Python)"
    with for_command("evaluate"):
        assert say("--time", "COLUMN") == "--time COLUMN"
    assert "in Python" in say("--time", "COLUMN")


def test_the_command_line_says_no_word_of_python(tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("action_1,reward_1\n0,1\n")
    with pytest.raises(cr.CounterrankError, match="in Python"):
        cr.read_log(log)
    done = CliRunner().invoke(main, ["evaluate", str(log), "--target", "new"])
    assert isinstance(done.exception, cr.CounterrankError)
    assert "--estimate-propensity" in str(done.exception)
    assert "in Python" not in str(done.exception)


def test_errors_keep_the_remedy_apart_and_survive_a_process():
    problem = LogError("reward is NaN in row 3", remedy="drop the row")
    assert str(problem) == "reward is NaN in row 3; drop the row"
    there = pickle.loads(pickle.dumps(problem))
    assert (str(there), there.said, there.remedy) == (str(problem), problem.said, problem.remedy)
    inside = problem.about("log.csv")
    assert str(inside) == "log.csv: reward is NaN in row 3; drop the row"
    assert inside.remedy == "drop the row" and isinstance(inside, LogError)
    assert str(UnknownNameError("no target 'x'")) == "no target 'x'"


def test_rows_are_called_by_their_ranking_where_the_file_has_one_row_a_position(tmp_path):
    log = tmp_path / "log.csv"
    log.write_text(
        "ranking,position,action,reward,propensity\nq1,1,0,1,0.5\nq2,1,0,nan,0.5\nq3,1,1,0,0.5\n"
    )
    with pytest.raises(LogError, match="ranking 'q2', position 1"):
        cr.read_log(log)
    assert messages.row_name(2) == "row 2"


#: Reading a sentence of ours again, to act on it or to change it.
REREAD = re.compile(
    r"(note|flag|reason|message|warning|str\(problem\))s?(\[[^]]*\])?"
    r"\.(startswith|partition|rpartition|split|replace|removeprefix)\("
)


def test_no_code_reads_its_own_sentences_again():
    found = {
        f"{path.relative_to(SOURCE)}:{number}": line.strip()
        for path in SOURCE.rglob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if REREAD.search(line)
    }
    assert not found
