"""From data outside to RankingLog: files, tables in memory, streams, other libraries' formats."""

from counterrank.readers.adapters.kuairand import read_kuairand
from counterrank.readers.adapters.obp import from_obp
from counterrank.readers.adapters.open_bandit import read_open_bandit
from counterrank.readers.adapters.seznam import read_seznam
from counterrank.readers.adapters.vowpal import read_vw_ccb, read_vw_slates
from counterrank.readers.concat import concat
from counterrank.readers.decode import decode
from counterrank.readers.files import read_log
from counterrank.readers.fingerprint import Fingerprint, partial
from counterrank.readers.frames import as_table, from_frame, from_table
from counterrank.readers.names import listed, suggestion
from counterrank.readers.notes import explain
from counterrank.readers.options import ReadOptions, log_table
from counterrank.readers.parts import batch_rows
from counterrank.readers.paths import expand
from counterrank.readers.registry import ADAPTERS
from counterrank.readers.resolve import resolve
from counterrank.readers.scan import FileSource, scan_log
from counterrank.readers.spec import Field, LogSpec
from counterrank.readers.survey import Survey

__all__ = [
    "ADAPTERS",
    "Field",
    "FileSource",
    "Fingerprint",
    "LogSpec",
    "ReadOptions",
    "Survey",
    "as_table",
    "batch_rows",
    "concat",
    "decode",
    "expand",
    "explain",
    "from_frame",
    "from_obp",
    "from_table",
    "listed",
    "log_table",
    "partial",
    "read_kuairand",
    "read_log",
    "read_open_bandit",
    "read_seznam",
    "read_vw_ccb",
    "read_vw_slates",
    "resolve",
    "scan_log",
    "suggestion",
]
