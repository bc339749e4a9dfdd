"""Small logs and every way to write them down."""

import gzip
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from counterrank.data.log import RankingLog

Columns = dict[str, Any]
MATRICES = ("action", "reward", "propensity", "new")


def make_columns(
    n: int = 60, length: int = 3, *, seed: int = 0, ragged: bool = False, names: bool = False
) -> Columns:
    """Lists of rows by column; ragged ones are shorter lists."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, length + 1, n) if ragged else np.full(n, length)
    sizes[0] = length

    def lists(values: np.ndarray) -> list[list[Any]]:
        return [row[:size] for row, size in zip(values.tolist(), sizes, strict=True)]

    action = rng.integers(0, 5, (n, length))
    shown = np.array(["apple", "beer", "corn", "date", "egg"])[action] if names else action
    return {
        "action": lists(shown),
        "reward": lists(rng.normal(size=(n, length))),
        "propensity": lists(rng.uniform(0.1, 1, (n, length))),
        "new": lists(rng.uniform(0, 1, (n, length))),
        "x_age": rng.normal(size=n).tolist(),
        "x_device": rng.choice(["phone", "desk", "tv"], n).tolist(),
        "unit": [f"user {i}" for i in rng.integers(0, 20, n)],
        "country": rng.choice(["AT", "CZ"], n).tolist(),
    }


def as_log(columns: Columns) -> RankingLog:
    """The log these columns mean, built without any reader."""
    length = max(map(len, columns["action"]))

    def padded(name: str, pad: float) -> np.ndarray:
        return np.array([[*row, *[pad] * (length - len(row))] for row in columns[name]])

    action_names = None
    if isinstance(columns["action"][0][0], str):
        action_names = tuple(sorted({item for row in columns["action"] for item in row}))
        codes = [[action_names.index(item) for item in row] for row in columns["action"]]
        action = np.array([[*row, *[-1] * (length - len(row))] for row in codes])
    else:
        action = padded("action", -1)
    devices = sorted(set(columns["x_device"]))
    context = np.column_stack([columns["x_age"], [devices.index(d) for d in columns["x_device"]]])
    return RankingLog(
        action=action.astype(np.int64),
        reward=padded("reward", 0.0),
        propensity=padded("propensity", 1.0),
        targets={"new": padded("new", 1.0)},
        context=context,
        context_names=("x_age", "x_device"),
        categories={"x_device": tuple(devices)},
        unit=np.array(columns["unit"], dtype=object),
        columns={"country": np.array(columns["country"], dtype=object)},
        action_names=action_names,
    )


def lay_out(columns: Columns, layout: str) -> Columns:
    """The same rankings in another layout."""
    if layout == "list":
        return dict(columns)
    n, length = len(columns["action"]), max(map(len, columns["action"]))
    rest = {name: values for name, values in columns.items() if name not in MATRICES}
    if layout == "numbered":
        wide = {
            f"{name}_{k + 1}": [row[k] if k < len(row) else None for row in columns[name]]
            for name in MATRICES
            for k in range(length)
        }
        return wide | rest
    pairs = [(i, k) for i in range(n) for k in range(len(columns["action"][i]))]
    flat = {name: [columns[name][i][k] for i, k in pairs] for name in MATRICES}
    where = {"ranking": [f"r{i}" for i, _ in pairs], "position": [k + 1 for _, k in pairs]}
    return where | flat | {name: [values[i] for i, _ in pairs] for name, values in rest.items()}


def write(columns: Columns, path: Path, *, row_group_size: int = 17) -> Path:
    """Write columns in the format the name says."""
    import pyarrow.feather as feather
    import pyarrow.parquet as pq

    name = path.name
    if name.endswith(".parquet"):
        pq.write_table(pa.table(columns), path, row_group_size=row_group_size)
    elif name.endswith((".arrow", ".feather")):
        feather.write_feather(pa.table(columns), path, chunksize=row_group_size)
    elif ".jsonl" in name:
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        _bytes(path, "".join(json.dumps(row) + "\n" for row in rows).encode())
    else:
        lines = [",".join(columns)]
        lines += [",".join(map(_cell, row)) for row in zip(*columns.values(), strict=True)]
        _bytes(path, ("\n".join(lines) + "\n").encode())
    return path


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return (
        '"' + json.dumps(value).replace('"', "'") + '"' if isinstance(value, list) else str(value)
    )


def _bytes(path: Path, content: bytes) -> None:
    if path.suffix == ".gz":
        content = gzip.compress(content, mtime=0)
    elif path.suffix == ".zst":
        content = pa.compress(content, codec="zstd", asbytes=True)
    path.write_bytes(content)


def check_same(found: RankingLog, expected: RankingLog) -> None:
    """All that a log says is equal, bit for bit."""
    np.testing.assert_array_equal(found.action, expected.action)
    np.testing.assert_array_equal(found.reward, expected.reward)
    np.testing.assert_array_equal(found.lengths, expected.lengths)
    np.testing.assert_array_equal(found.propensity.values, expected.propensity.values)
    assert found.propensity.kind == expected.propensity.kind
    assert set(found.targets) == set(expected.targets)
    for name, target in expected.targets.items():
        np.testing.assert_array_equal(found.targets[name].values, target.values)
    np.testing.assert_array_equal(found.context, expected.context)
    assert found.context_names == expected.context_names
    assert dict(found.categories) == dict(expected.categories)
    assert found.action_names == expected.action_names
    np.testing.assert_array_equal(found.bucket, expected.bucket)
    assert found.unit.tolist() == expected.unit.tolist()
    for name, column in expected.columns.items():
        assert found.columns[name].tolist() == column.tolist()


class Kit:
    """The helpers above, for tests."""

    make = staticmethod(make_columns)
    log = staticmethod(as_log)
    lay_out = staticmethod(lay_out)
    write = staticmethod(write)
    same = staticmethod(check_same)


@pytest.fixture(scope="session")
def kit() -> type[Kit]:
    return Kit


Writer = Callable[[Columns, Path], Path]


@pytest.fixture(scope="session")
def object_store():
    """A real S3 server on loopback: its address and a client of it."""
    boto3 = pytest.importorskip("boto3")
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    client = boto3.client(
        "s3",
        endpoint_url=address,
        region_name="us-east-1",
        aws_access_key_id="a-key",
        aws_secret_access_key="a-secret",
    )
    try:
        yield address, client
    finally:
        server.stop()


@pytest.fixture
def bucket(object_store, monkeypatch):
    """An empty bucket called `logs`, with the environment that leads there."""
    address, client = object_store
    monkeypatch.setenv("AWS_ENDPOINT_URL", address)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    client.create_bucket(Bucket="logs")
    yield Bucket(client)
    for one in client.list_objects_v2(Bucket="logs").get("Contents", ()):
        client.delete_object(Bucket="logs", Key=one["Key"])
    client.delete_bucket(Bucket="logs")


class Bucket:
    """What tests do with the bucket, past the code they test."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def put(self, path: Path, key: str) -> str:
        """Store a file, or a folder's files, and return the address."""
        for file in [path] if path.is_file() else sorted(f for f in path.rglob("*") if f.is_file()):
            name = key if path.is_file() else f"{key}/{file.relative_to(path).as_posix()}"
            self.client.put_object(Bucket="logs", Key=name, Body=file.read_bytes())
        return f"s3://logs/{key}"

    def get(self, key: str) -> bytes:
        return self.client.get_object(Bucket="logs", Key=key)["Body"].read()

    def keys(self) -> list[str]:
        found = self.client.list_objects_v2(Bucket="logs").get("Contents", ())
        return [one["Key"] for one in found]
