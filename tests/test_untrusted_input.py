"""Nothing that is read can run: no pickle, no eval, no YAML tags, no shells, no network; bombs are
bounded.
"""

import ast
import gzip
from pathlib import Path

import pytest

import counterrank
from counterrank.common.errors import LogError
from counterrank.io import files as streams
from counterrank.io import read_log

SOURCE = Path(counterrank.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
#: Modules that unpickle, run or fetch what they are given.
BANNED_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "yaml", "telnetlib",
                  "ftplib", "requests", "urllib3", "httpx", "xmlrpc", "code", "pty"}  # fmt: skip
BANNED_CALLS = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "subprocess.call", "subprocess.run",
                "subprocess.Popen", "pd.read_pickle", "pandas.read_pickle", "urllib.request.urlopen",
                "tempfile.mktemp"}  # fmt: skip


def dotted(node):
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def offences(text):
    """Return what the rules forbid in a module, by line."""
    found = []
    for node in ast.walk(ast.parse(text)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name.partition(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [(node.module or "").partition(".")[0]]
        found += [
            f"line {node.lineno}: import of {name}" for name in names if name in BANNED_MODULES
        ]
        if isinstance(node, ast.Call):
            if dotted(node.func) in BANNED_CALLS:
                found.append(f"line {node.lineno}: {dotted(node.func)}(...)")
            for keyword in node.keywords:
                forbidden = {"allow_pickle": True, "shell": True}.get(keyword.arg)
                if (
                    forbidden is not None
                    and isinstance(keyword.value, ast.Constant)
                    and keyword.value.value == forbidden
                ):
                    found.append(f"line {node.lineno}: {keyword.arg}=True")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_module_can_run_what_it_reads(path):
    assert offences(path.read_text()) == []


@pytest.mark.parametrize(
    "bad", ["import pickle", "from yaml import load", "eval('1')", "import numpy as np\nnp.load(f, "
                                                                   "allow_pickle=True)",
            "import subprocess\nsubprocess.run(x, shell=True)", "def f():\n    exec(text)"]
)  # fmt: skip
def test_the_rules_catch_what_they_forbid(bad):
    assert offences(bad)


def test_every_np_load_forbids_pickles():
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and dotted(node.func) in ("np.load", "numpy.load"):
                assert any(
                    k.arg == "allow_pickle" and k.value.value is False for k in node.keywords
                ), path


def test_a_gzip_bomb_is_refused(tmp_path, monkeypatch):
    # A thousandth of the real bound, so that the test stays small.
    monkeypatch.setattr(streams, "HARMLESS", 1 << 20)
    path = tmp_path / "bomb.csv.gz"
    line = b"1,1,0.5\n"
    path.write_bytes(gzip.compress(b"action_1,reward_1,propensity_1\n" + line * 1_500_000, 9))
    assert path.stat().st_size * streams.MOST_RATIO < 12_000_000 or path.stat().st_size < 40_000
    with pytest.raises(LogError, match="unpacks to more than"):
        read_log(path)


def test_a_parquet_file_of_many_rows_in_few_bytes_is_streamed_in_bounded_batches(tmp_path):
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    # Three million equal rows pack into a few kilobytes; a pass over them holds a batch at a time.
    rows = 3_000_000
    values = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(rows, dtype=np.int8)), pa.array([0.5])
    ).dictionary_decode()
    table = pa.table(
        {
            "action_1": pa.array(np.zeros(rows, dtype=np.int64)),
            "reward_1": values,
            "propensity_1": values,
        }
    )
    path = tmp_path / "bomb.parquet"
    pq.write_table(table, path, row_group_size=rows)
    assert path.stat().st_size < 60_000
    from counterrank.io import scan_log

    sizes = [batch.n for batch in scan_log(path).batches(rows=50_000)]
    assert sum(sizes) == rows and max(sizes) <= 50_000
