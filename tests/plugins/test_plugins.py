"""Estimators and policies of other packages: found, used, stored; broken ones are named and harm
nobody.
"""

import os
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner

import counterrank as cr
from counterrank.cli.main import LazyGroup
from counterrank.common.errors import ConfigError, CounterrankWarning, EstimatorError, PolicyError
from counterrank.estimators import registry
from counterrank.policies import storage
from counterrank.testing import check_estimator, check_policy, random_log


def test_an_estimator_of_another_package_is_one_of_ours(example):
    assert "first-position" in registry.names()
    check_estimator(registry.get("first-position"))
    log = random_log(np.random.default_rng(0))
    found = cr.evaluate(log, ["new"], estimators=["first-position", "ips"])
    rho = log.targets["new"].values / log.propensity.values
    rho[:, 1:] *= rho[:, :1]
    assert found.estimate("new", "first-position").value == pytest.approx(
        (rho * log.reward).sum(axis=1).mean()
    )


def test_a_policy_of_another_package_is_stored_and_loaded(example, tmp_path):
    from counterrank_example.popularity import Popularity

    assert "Popularity" in storage.kinds()
    policy = Popularity([5, 3, 2])
    check_policy(policy, length=2, rng=np.random.default_rng(0))
    cr.save_policy(policy, tmp_path / "p.npz")
    again = cr.load_policy(tmp_path / "p.npz")
    assert type(again) is Popularity and np.array_equal(again.dist(), policy.dist())


def test_a_stored_policy_whose_package_is_gone_is_refused(example, tmp_path, monkeypatch):
    from counterrank_example.popularity import Popularity

    cr.save_policy(Popularity([1, 1]), tmp_path / "p.npz")
    monkeypatch.setattr("sys.path", [folder for folder in sys.path if folder != str(example)])
    with pytest.raises(PolicyError, match="unknown policy kind 'Popularity'"):
        cr.load_policy(tmp_path / "p.npz")


@pytest.mark.filterwarnings("ignore::counterrank.common.errors.CounterrankWarning")
@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("no-module", "ModuleNotFoundError"),
        ("no-name", "AttributeError"),
        ("bad-make", "no licence"),
        ("bad-kind", "makes a int, not an Estimator"),
        ("bad-import", "ZeroDivisionError"),
    ],
)
def test_a_broken_plugin_is_named_with_its_package(broken, name, what):
    with pytest.raises(
        EstimatorError, match=f"plug-in '{name}' .* of package broken-plugin 9.9 .*{what}"
    ):
        registry.get(name)


@pytest.mark.filterwarnings("ignore::counterrank.common.errors.CounterrankWarning")
def test_broken_plugins_do_not_stop_an_evaluation_of_everything(broken):
    log = random_log(np.random.default_rng(0), n=60)
    found = cr.evaluate(log, ["new"], estimators=["iips", "all"])
    skipped = {entry["estimator"]: entry["reason"] for entry in found.skipped}
    assert {"no-module", "bad-make"} <= set(skipped)
    assert "broken-plugin" in skipped["bad-import"]
    with pytest.raises(PolicyError, match="Odd"):
        storage.policy_class("Odd")


def test_our_own_names_cannot_be_taken(broken):
    with pytest.warns(
        CounterrankWarning, match=r"plug-in 'ips' .*not used: the name 'ips' is taken"
    ):
        registry.names()
    assert type(registry.get("ips")) is cr.IPS
    assert storage.policy_class("Uniform") is cr.Uniform


def test_the_command_line_starts_with_broken_plugins(broken):
    environment = os.environ | {"PYTHONPATH": str(broken)}
    done = subprocess.run(
        [sys.executable, "-m", "counterrank", "estimators"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )
    assert (
        done.returncode == 0
        and "no-module" in done.stdout
        and "Traceback" not in done.stderr + done.stdout
    )


def test_a_format_of_another_package_is_read(example, tmp_path):
    path = tmp_path / "log.tsv"
    path.write_text("a\t1\t0.5\nb\t0\t0.25\n")
    log = cr.read_log(path, format="tabbed")
    assert log.reward.tolist() == [[1.0], [0.0]] and log.notes == ("read by an example",)
    with pytest.raises(ConfigError, match="'tabbed' is read whole, not as a stream"):
        cr.scan_log(path, format="tabbed")
    with pytest.raises(ConfigError, match="did you mean 'tabbed'"):
        cr.read_log(path, format="tabed")


def test_a_command_of_another_package_is_listed_and_run(example, tmp_path):
    path = tmp_path / "log.tsv"
    path.write_text("a\nb\n")
    program = LazyGroup()
    listed = CliRunner().invoke(program, ["--help"]).output
    assert "Count the lines of a file." in listed and "Write a simulated log" in listed
    done = CliRunner().invoke(program, ["lines", str(path)])
    assert (done.exit_code, done.output) == (0, "2\n")


@pytest.mark.filterwarnings("ignore::counterrank.common.errors.CounterrankWarning")
def test_broken_formats_and_commands_are_named_when_they_are_used(broken, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("action_1,reward_1,propensity_1\n0,1,0.5\n")
    assert cr.read_log(path).n == 1
    with pytest.raises(ConfigError, match="plug-in 'odd-format' .*ZeroDivisionError"):
        cr.read_log(path, format="odd-format")
    program = LazyGroup()
    assert "odd-command" in CliRunner().invoke(program, ["--help"]).output
    done = CliRunner().invoke(program, ["odd-command"])
    assert "plug-in 'odd-command'" in str(done.exception)
