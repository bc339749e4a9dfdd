"""Propensities estimated from scores and features of candidates: Plackett-Luce with unknown tastes."""

import json
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from scipy import optimize

import counterrank as cr
from counterrank.cli.main import main
from counterrank.common.errors import ConfigError, PropensityError
from counterrank.common.messages import MISSING_PROPENSITY
from counterrank.data.source import MemorySource
from counterrank.io import read_log, scan_log
from counterrank.policies import Candidates, ItemFeatures, Scored, parse_policy
from counterrank.propensity_models import estimate_propensities, estimated_source
from counterrank.propensity_models.choice import Choices, choice_loss, fit_choice, known_features
from counterrank.propensity_models.estimate import FITTED_ROWS, fitted_rows

TEMPERATURE, COEFFICIENT = 0.5, 0.8


def ragged(n=400, K=3, A=800, seed=0, low=5, high=12):
    """Rows of a large catalogue drawn by scores / 0.5 + 0.8 z_price, as lists."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(low, high, size=n)
    lists = [rng.choice(A, size=C, replace=False).tolist() for C in counts]
    sets = Candidates.from_lists(lists)
    scores, price = rng.normal(size=(2, len(sets.items)))
    new = scores + 0.3 * rng.normal(size=len(scores))
    true = Scored(sets, scores / TEMPERATURE + COEFFICIENT * price, parse_policy("plackett-luce"))
    action = true.sample(K, rng)[:, 0]
    chance = np.array([0.6, 0.4, 0.3])[:K] * (0.3 + 0.7 * (action % 2))
    reward = (rng.random(action.shape) < chance).astype(float)

    def split(flat):
        return [part.tolist() for part in np.split(flat, sets.offsets[1:-1])]

    rows = {
        "action": action.tolist(),
        "reward": reward.tolist(),
        "candidates": lists,
        "propensity_scores": split(scores),
        "new_scores": split(new),
        "z_price": split(price),
        "unit": [f"u{i}" for i in range(n)],
    }
    return rows, true


def as_log(rows, *, scored=True, priced=True, more=None):
    """The log without propensities: its logger is a stand-in with scores, or none."""
    features = {**({"z_price": rows["z_price"]} if priced else {}), **(more or {})}
    sets = Candidates.from_lists(rows["candidates"], features)
    stand_in = np.ones(np.shape(rows["action"]))
    if scored:
        stand_in = Scored(sets, np.concatenate(rows["propensity_scores"]), parse_policy("top"))
    new = parse_policy("plackett-luce").bind(
        candidates=sets, scores=np.concatenate(rows["new_scores"])
    )
    return cr.RankingLog(
        action=rows["action"],
        reward=rows["reward"],
        propensity=stand_in,
        targets={"new": new},
        candidates=sets,
        unit=np.array(rows["unit"]),
        notes=(MISSING_PROPENSITY,),
    )


def naive(offsets, utility, places, weight):
    """The loss and its slope, choice by choice, over what is left."""
    total, slope = 0.0, np.zeros(len(utility))
    for i, row in enumerate(places):
        first = offsets[i]
        left = [
            c for c in range(offsets[i + 1] - first) if utility[first + c] > -np.inf
        ]  # places among the row's candidates
        for place in row:
            if place not in left:
                break
            mass = np.array([utility[first + c] for c in left])
            p = np.exp(mass - mass.max())
            p /= p.sum()
            total -= weight[i] * np.log(p[left.index(place)])
            for c, share in zip(left, p, strict=True):
                slope[first + c] += weight[i] * (share - (c == place))
            left.remove(place)
    return total, slope


def test_the_loss_and_its_slope_are_those_of_a_naive_twin():
    """Ragged lists, padding, items from outside, repeats, items not eligible, weights of zero."""
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 7, size=300)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    utility = 3 * rng.normal(size=offsets[-1])
    utility[rng.random(len(utility)) < 0.1] = -np.inf
    places = np.array([(rng.permutation(8)[:4] - 1).tolist() for _ in counts])
    places = np.where(places >= counts[:, None], -2, places)
    places[::9, 2] = places[::9, 0]
    weight = rng.poisson(1.0, size=len(counts)).astype(float)
    slope = np.full(len(utility), 7.0)
    found = choice_loss(offsets, utility, places, weight, slope)
    expected, by_hand = naive(offsets, utility, places, weight)
    assert found == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(slope, by_hand, atol=1e-12)
    assert (slope[utility == -np.inf] == 0).all()


def test_utilities_a_thousand_nats_apart_do_not_overflow():
    offsets, places = np.array([0, 3]), np.array([[0, 1, 2]])
    utility, slope = np.array([1000.0, 0.0, -1000.0]), np.empty(3)
    assert choice_loss(offsets, utility, places, np.ones(1), slope) == 0.0
    assert choice_loss(offsets, utility, places[:, ::-1].copy(), np.ones(1), slope) == 3000.0
    np.testing.assert_allclose(slope, [2.0, -1.0, -1.0])


def test_the_slope_of_the_loss_is_its_derivative():
    rng = np.random.default_rng(1)
    offsets, places = np.array([0, 4, 9]), np.array([[2, 0], [4, 1]])
    slope = np.empty(9)

    def loss(utility):
        return choice_loss(offsets, utility, places, np.array([1.0, 2.0]), slope)

    at = rng.normal(size=9)
    loss(at)
    found = slope.copy()
    np.testing.assert_allclose(found, optimize.approx_fprime(at, loss, 1e-6), atol=1e-5)


def test_the_fit_is_at_a_minimum():
    rng = np.random.default_rng(2)
    offsets = np.arange(301) * 6
    x = rng.normal(size=(1800, 3))
    places = np.array([rng.permutation(6)[:2] for _ in range(300)])
    weight, penalty = rng.random(300), np.array([1.0, 2.0, 0.5])
    eligible = np.ones(1800, bool)
    theta = fit_choice(x, offsets, places, weight, eligible=eligible, penalty=penalty)
    slope = np.empty(1800)
    choice_loss(offsets, x @ theta, places, weight, slope)
    assert np.abs(slope @ x + penalty * theta).max() < 0.01  # of some 150 weighted rows


def information(log, model):
    """The standard errors of the coefficients (d,), by the outer product of each row's slope."""
    x = model.tastes.matrix(log)
    slope = np.empty(len(x))
    choice_loss(
        log.candidates.offsets, x @ model.theta.mean(axis=0), log.shown, np.ones(log.n), slope
    )
    rows = np.add.reduceat(slope[:, None] * x, log.candidates.offsets[:-1], axis=0)
    return np.sqrt(np.diag(np.linalg.inv(rows.T @ rows)))


def test_temperature_and_coefficients_are_recovered():
    """Within three standard errors, which are 2 and 3 percent here."""
    rows, true = ragged(n=3000)
    log = as_log(rows)
    model = Choices(log).model
    error = information(log, model)
    found = model.power * model.theta.mean(axis=0)
    truth = np.array([1 / TEMPERATURE, COEFFICIENT]) * model.tastes.scale
    assert (error / truth < [0.02, 0.03]).all()
    assert (np.abs(found - truth) < 3 * error).all()
    assert model.slope == pytest.approx(1 / TEMPERATURE, rel=0.06)
    estimated = model.apply(log).propensity
    apart = estimated.position_log_prob(log.action) - true.position_log_prob(log.action)
    assert np.abs(apart).mean() < 0.04
    assert f"temperature {1 / model.slope:.3g} and feature z_price" in model.notes[0]


def test_without_scores_features_are_enough_when_they_are_what_was_ranked_by():
    rows, true = ragged(n=2000)
    scores = {"z_score": rows["propensity_scores"]}
    log = as_log(rows, scored=False, more=scores)
    assert known_features(log) == ("z_price", "z_score")
    found = estimate_propensities(log, "plackett-luce").propensity
    apart = found.prefix_log_prob(log.action) - true.prefix_log_prob(log.action)
    assert np.abs(apart).mean() < 0.1


def test_features_by_item_categories_and_gaps_count_too():
    """Brands of items, with a price that is not always known: 1 for acme, 0 for bolt."""
    rng = np.random.default_rng(3)
    n, A, C = 3000, 900, 6
    lists = np.array([rng.choice(A, size=C, replace=False) for _ in range(n)])
    sets = Candidates.from_lists(lists.tolist(), n_items=A)
    brand, price = rng.integers(2, size=A), rng.normal(size=A)
    true = Scored(
        sets, (1.0 * (brand == 0) + 0.5 * price)[sets.items], parse_policy("plackett-luce")
    )
    price[rng.random(A) < 0.1] = np.nan
    items = ItemFeatures(
        np.column_stack([brand, price]), ("brand", "price"), {"brand": ("acme", "bolt")}
    )
    log = cr.RankingLog(
        action=true.sample(2, rng)[:, 0],
        reward=np.ones((n, 2)),
        propensity=np.ones((n, 2)),
        candidates=sets,
        item_features=items,
    )
    model = Choices(log).model
    theta = model.power * model.theta.mean(axis=0)  # price, acme, bolt, price unknown
    assert theta[0] / model.tastes.scale[1] == pytest.approx(0.5, abs=0.06)
    assert theta[1] - theta[2] == pytest.approx(1.0, abs=0.1)


def test_a_row_never_helps_to_predict_itself():
    rows, _ = ragged()
    log = as_log(rows)
    zero = log.bucket % 2 == 0
    turned = [row[::-1] if flip else row for row, flip in zip(rows["action"], zero, strict=True)]
    other = as_log({**rows, "action": turned})
    ours, theirs = Choices(log).model, Choices(other).model
    np.testing.assert_allclose(ours.theta[0], theirs.theta[0], atol=1e-6)
    assert np.abs(ours.theta[1] - theirs.theta[1]).max() > 0.1


def test_candidates_that_were_not_eligible_stay_so():
    rows, _ = ragged()
    for i, listed in enumerate(rows["candidates"]):
        unshown = next(j for j, item in enumerate(listed) if item not in rows["action"][i])
        rows["propensity_scores"][i][unshown] = -np.inf
    log = as_log(rows)
    found = estimate_propensities(log).propensity.scores
    flat = np.concatenate(rows["propensity_scores"])
    np.testing.assert_array_equal(found == -np.inf, flat == -np.inf)


def test_auto_takes_what_is_known_of_candidates():
    rows, _ = ragged()
    assert "plackett-luce" in estimate_propensities(as_log(rows)).notes[-1]
    bare = cr.RankingLog(
        action=np.array(rows["action"]) % 5, reward=rows["reward"], propensity=np.ones((400, 3))
    )
    assert "logistic" in estimate_propensities(bare).notes[-1]


def test_what_is_not_known_is_refused_in_one_message():
    rows, _ = ragged()
    with pytest.raises(PropensityError, match="candidates, but neither scores nor features"):
        estimate_propensities(as_log(rows, scored=False, priced=False), "plackett-luce")
    bare = cr.RankingLog(action=rows["action"], reward=rows["reward"], propensity=np.ones((400, 3)))
    with pytest.raises(PropensityError, match="this log has no candidates"):
        estimate_propensities(bare, "plackett-luce")
    with pytest.raises(PropensityError, match="items are too many.*use plackett-luce"):
        estimate_propensities(bare)
    with pytest.raises(ConfigError, match="scores and features of candidates"):
        estimate_propensities(as_log(rows), "plackett-luce:z_price")


def test_a_deterministic_logger_is_refused():
    rows, _ = ragged()
    order = [np.argsort(-np.array(s)) for s in rows["propensity_scores"]]
    top = [
        np.array(listed)[o[:3]].tolist()
        for listed, o in zip(rows["candidates"], order, strict=True)
    ]
    with pytest.raises(PropensityError, match="looks deterministic: what is known of the candid"):
        estimate_propensities(as_log({**rows, "action": top}))


def test_candidates_of_other_requests_are_refused():
    rows, _ = ragged()
    known = np.unique(np.concatenate(rows["candidates"]))
    action = [np.setdiff1d(known, listed)[:3].tolist() for listed in rows["candidates"]]
    other = as_log({**rows, "action": action})
    with pytest.raises(PropensityError, match="no ranking whose first item is among its cand"):
        estimate_propensities(other)


def test_rows_with_many_features_are_fitted_on_fewer():
    rows, _ = ragged(n=50)
    assert fitted_rows(as_log(rows), "plackett-luce") == FITTED_ROWS
    wide = as_log(rows, more={f"z_{j}": rows["z_price"] for j in range(129)})
    per_row = np.mean([len(row) for row in rows["candidates"]]) * 131
    assert fitted_rows(wide, "plackett-luce") == int(20_000_000 / per_row) < FITTED_ROWS
    assert fitted_rows(wide, "logistic") == FITTED_ROWS


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    rows, _ = ragged(n=600)
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    pq.write_table(pa.table(rows), path, row_group_size=100)
    return rows, path


def test_files_streams_and_objects_give_the_same_policy(written):
    rows, path = written
    expected = estimate_propensities(as_log(rows)).propensity
    policies = {"new": "plackett-luce"}
    read = read_log(path, require_propensity=False, policies=policies)
    assert [note.code for note in read.notes] == [
        "propensity-missing"
    ] and read.propensity.deterministic
    found = estimate_propensities(read).propensity
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-12, rtol=0)
    stream = scan_log(path, targets=("new",), require_propensity=False, policies=policies)
    source, replicas = estimated_source(stream, "plackett-luce", targets=["new"], replicates=1)
    total = source.reduce(lambda batch: batch.propensity.scores.sum())
    assert total == pytest.approx(expected.scores.sum(), rel=1e-12)
    assert replicas[0].first.n != source.first.n  # rows were drawn again
    model = Choices(read).model
    again = pickle.loads(pickle.dumps(model))  # it travels to workers
    np.testing.assert_array_equal(again.apply(read).propensity.scores, found.scores)


def test_the_result_says_that_propensities_were_estimated(written):
    rows, _ = written
    log = as_log(rows)
    asked = {"estimators": ["iips"], "estimate_propensity": "plackett-luce"}
    result = cr.evaluate(log, ["new"], **asked)
    plain = cr.evaluate(estimate_propensities(log), ["new"], estimators=["iips"]).estimate()
    found = result.estimate()
    assert found.value == pytest.approx(plain.value)
    assert found.stderr == max(plain.stderr, found.details["bootstrap_stderr"]) > 0
    assert found.flags[0].startswith("estimated-propensity")
    assert result.verdict["level"] != "reliable"
    check = next(r for r in result.verdict["reasons"] if r["check"] == "propensities")
    assert check["status"] != "passed"
    audit = {row["check"]: row["status"] for row in result.audit}
    assert (audit["logged-propensities"], audit["scores"]) == ("warned", "passed")


def test_the_command_line_and_a_job_file_estimate_too(written, tmp_path):
    _, path = written
    out = tmp_path / "result.json"
    options = ["--policy", "new=plackett-luce", "--estimators", "iips", "--json", str(out)]
    ran = CliRunner().invoke(
        main, ["evaluate", str(path), *options, "--estimate-propensity", "plackett-luce"]
    )
    assert ran.exit_code == 0, ran.output
    found = json.loads(out.read_text())
    job = tmp_path / "job.toml"
    job.write_text(
        f'log = "{path}"\nestimators = "iips"\njson = "job.json"\n'
        'estimate-propensity = "plackett-luce"\n[policy]\nnew = "plackett-luce"\n'
    )
    assert CliRunner().invoke(main, ["run", str(job)]).exit_code == 0
    again = json.loads((tmp_path / "job.json").read_text())
    assert found["estimates"] == again["estimates"]
    assert "temperature" in found["estimates"][0]["flags"][0]


def test_a_check_says_what_to_do_with_scores_alone(written):
    _, path = written
    ran = CliRunner().invoke(main, ["check", str(path), "--json", "-"])
    rows = {row["code"]: row for row in json.loads(ran.stdout)["audit"]}
    assert "scores of the logger, but no propensities" in rows["logged-propensities"]["text"]
    (remedy,) = rows["logged-propensities"]["remedies"]
    assert "--estimate-propensity plackett-luce" in remedy
    assert rows["scores"]["status"] == "passed"


def test_a_logger_of_another_kind_is_found_out():
    """Epsilon at each slot is no Plackett-Luce: the audit says that the estimate does not fit."""
    rows, _ = ragged(n=3000)
    sets = Candidates.from_lists(rows["candidates"])
    slot = parse_policy("epsilon:epsilon=0.3").bind(
        candidates=sets, scores=np.concatenate(rows["propensity_scores"])
    )
    action = slot.sample(3, np.random.default_rng(5))[:, 0].tolist()
    result = cr.evaluate(
        as_log({**rows, "action": action}), ["new"], estimators=["iips"], estimate_propensity=True
    )
    found = next(row for row in result.audit if row["check"] == "scores")
    assert found["status"] == "failed" and "estimated utility" in found["found"]


def test_a_log_in_memory_whose_logger_alone_has_candidates():
    rows, _ = ragged()
    log = as_log(rows, priced=False)
    object.__setattr__(log, "candidates", None)
    assert known_features(log) == ("scores",)
    source, _ = estimated_source(MemorySource(log), "auto", targets=["new"], replicates=0)
    assert source.first.propensity.spec.kind == "plackett-luce"
