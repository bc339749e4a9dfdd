"""The pages on where a log is: every command and block in them is run."""

import importlib.util
import logging
import os
import shlex
from pathlib import Path

import click
import pytest

from counterrank.cli.main import main

spec = importlib.util.spec_from_file_location("doc_blocks", Path(__file__).with_name("conftest.py"))
tools = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tools)


def follow(page):
    """Do what a page says from the top to the bottom: Python is run, commands are typed."""
    found = [(line, "python", code) for line, code in tools.blocks(page, "python")]
    found += [(line, "bash", code) for line, code in tools.blocks(page, "bash")]
    names = {}
    for line, language, code in sorted(found):
        if language == "python":
            tools.run_python(page, code, line, names)
            continue
        for command in code.strip().splitlines():
            words = shlex.split(command)
            assert words[0] == "counterrank", command
            try:
                exit_code = main.main(words[1:], standalone_mode=False)
            except click.exceptions.Exit as stop:
                exit_code = stop.exit_code
            assert not exit_code, command
    assert found


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


def test_object_stores(monkeypatch):
    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    os.environ.update(
        AWS_ENDPOINT_URL=f"http://{host}:{port}", AWS_ACCESS_KEY_ID="k", AWS_SECRET_ACCESS_KEY="s",
        AWS_REGION="us-east-1", AWS_EC2_METADATA_DISABLED="true",
    )  # fmt: skip
    try:
        client = boto3.client("s3")
        client.create_bucket(Bucket="logs")
        follow("docs/howto/stores.md")
        kept = {one["Key"] for one in client.list_objects_v2(Bucket="logs")["Contents"]}
    finally:
        server.stop()
    assert {"out/report.html", "out/result.json"} < kept


def test_tables():
    follow("docs/howto/tables.md")


def test_warehouses():
    follow("docs/howto/warehouses.md")


def test_search_engines():
    follow("docs/howto/search-engines.md")


@pytest.mark.filterwarnings("ignore")
def test_training(tmp_path):
    follow("docs/howto/training.md")
    assert {"curve.json", "weights.parquet"} <= set(os.listdir(tmp_path))
