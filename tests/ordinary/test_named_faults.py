"""Faults that ordinary logs have shown, one small case each."""

import contextlib
import io
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.ordinary_logs import Recipe, make

import counterrank as cr
from counterrank.common.errors import ConfigError, EstimatorError, LogError
from counterrank.data.source import MemorySource, reporting_to
from counterrank.io import scan_log
from counterrank.propensity_models.estimate import estimated_source


def evaluated(recipe, **options):
    made = make(recipe)
    return cr.evaluate(
        made.log(), ["new"], **{**made.asks, "independent_rows": recipe.unit == "none", **options}
    )


def test_a_page_of_one_position_is_drawn():
    result = evaluated(Recipe(shape="K 1"))
    for kind in ("positions", "order-path", "weights"):
        with contextlib.suppress(ConfigError):
            result.plot(kind).savefig(io.BytesIO(), format="svg")


def test_one_place_cannot_be_swapped_with_another():
    policy = cr.parse_policy("swap:probability=0.5").bind(scores=[[1.0, 2.0], [2.0, 1.0]])
    assert np.exp(policy.prefix_log_prob(np.array([[1], [1]]))).tolist() == [[1.0], [0.0]]


@pytest.mark.parametrize("ids", ["from one", "names never repeated"])
def test_ids_that_have_no_place_in_the_distributions(ids):
    with pytest.raises(
        LogError, match="'propensity_dist' has 6 probabilities, for the items 0 to 5"
    ):
        make(Recipe(logger="factored with distributions", ids=ids)).log()


def test_text_with_nulls_is_a_segment():
    made = make(Recipe(context="null text"))
    table = made.table.append_column("ref", made.table["x_ref"])
    log = cr.RankingLog.from_frame(table, targets=["new"], **made.reading)
    result = cr.evaluate(log, ["new"], estimators=["ips"], segments=["ref"], independent_rows=True)
    assert "missing" in {row["label"] for row in result.segments}
    assert cr.audit_log(log) is not None


def test_a_model_of_a_huge_catalogue_is_refused_before_memory_is_taken():
    recipe = Recipe(ids="never repeated", logger="softmax")
    with pytest.raises(EstimatorError, match="items at 3 positions would not fit into memory"):
        evaluated(recipe, estimators=["dr-iips"])
    skipped = evaluated(recipe, estimators="all").skipped
    assert any("would not fit into memory" in one["reason"] for one in skipped)


def test_three_way_effects_of_constant_rewards():
    # Nothing is left over, so there is no noise, and the penalty was zero.
    result = evaluated(Recipe(reward="constant", logger="factored with distributions"))
    assert result.estimate("new").value == pytest.approx(7.5)


def test_looks_at_far_fewer_rows_than_planned():
    result = evaluated(Recipe(size="60"), sequential=10_000_000, estimators=["iips"])
    one = result.estimate("new", "iips")
    low, high = one.interval(0.95)
    plain = evaluated(Recipe(size="60"), estimators=["iips"]).estimate("new", "iips").interval(0.95)
    assert low < plain[0] < plain[1] < high < np.inf


@pytest.mark.parametrize(("scale", "word"), [(1e-200, "vanish"), (1e100, "overflow")])
def test_rewards_whose_squares_are_no_numbers(scale, word):
    half = np.full((4, 2), 0.5)
    log = cr.RankingLog(action=np.zeros((4, 2), int), reward=half * scale, propensity=half)
    with pytest.raises(LogError, match=word):
        cr.evaluate(log, {"new": half})


@pytest.mark.parametrize("name", ["ips", "aips", "auto"])
def test_one_such_reward_late_in_a_file(tmp_path, name):
    rng = np.random.default_rng(0)
    third = np.full((3000, 3), 1 / 3).tolist()
    reward = rng.random((3000, 2))
    reward[2500] = 1e160
    table = pa.table(
        {
            "action": rng.integers(0, 3, (3000, 2)).tolist(), "reward": reward.tolist(),
            "propensity": np.full((3000, 2), 1 / 3).tolist(), "new": np.full((3000, 2), 1 / 3).tolist(),
            "propensity_dist": third, "new_dist": third,
        }
    )  # fmt: skip
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=500)
    source = scan_log(tmp_path / "log.parquet", targets="new")
    with warnings.catch_warnings(), pytest.raises(LogError, match=r"1e\+160.*overflow"):
        warnings.simplefilter("error")
        cr.evaluate(source, ["new"], estimators=[name])


def test_weights_without_spread_have_no_z():
    # The target shows one ranking, which was never logged.
    result = evaluated(Recipe(shape="K 8", target="top", size="9"), estimators=["ips"])
    flag = next(flag for flag in result.estimate("new", "ips").flags if "mean-weight" in flag)
    assert "the same in every row" in flag and "inf" not in flag


def test_units_that_say_one_thing_n_times_over():
    # Constant rewards by unit: a variance of nothing over another was 1e300, or below zero.
    recipe = Recipe(
        context="times", reward="constant", unit="huge integers", ids="never repeated",
        shape="K 50", logger="factored", scores="one decimal", target="top", seed=1121232428,
    )  # fmt: skip
    assert evaluated(recipe).verdict.level == "insufficient"


def test_a_curve_that_nothing_identifies():
    skipped = evaluated(Recipe(shape="K 1", ids="from one"), estimators="all").skipped
    told = [one["reason"] for one in skipped if "examination cannot be told" in one["reason"]]
    assert told and "never shown elsewhere" in told[0] and "inf" not in told[0]


def test_nothing_predicted_has_no_bias():
    rng = np.random.default_rng(0)
    arm = np.repeat(["a", "b"], 150)
    log = cr.RankingLog(
        action=rng.integers(0, 2, (300, 2)), reward=rng.random((300, 2)), propensity=np.full((300, 2), 0.5),
        targets={"a": np.zeros((300, 2)), "b": np.zeros((300, 2))}, columns={"arm": arm},
    )  # fmt: skip
    assert repr(cr.validate(log, "arm")) == "Validation(pairs=2, coverage=None, bias=unknown)"


class TestPagesOfDifferentLengths:
    """Fresh rankings end where the logged page does: `learn` refused every log with short pages."""

    def test_learning_takes_the_logged_rankings_for_draws_of_the_logger(self):
        made = make(Recipe(shape="ragged", size="1,500", features="numbers", unit="all different"))
        learned = cr.learn(made.table, grade="assumed", **made.reading)
        assert learned.certificate.grade == "assumed"

    def test_weights_of_the_best_of_draws_average_one(self):
        # By chance off by 4 standard errors in 1 of 16,000.
        n, K = 4000, 4
        rng = np.random.default_rng(3)
        logger = cr.PlackettLuce(rng.normal(size=(n, 7)))
        action = logger.sample(K, rng)[:, 0]
        action[np.arange(K) >= rng.integers(1, K + 1, n)[:, None]] = -1
        worth = rng.random(7)

        def score(rows, rankings):
            return np.where(rankings >= 0, worth[rankings], 0.0).sum(axis=2)

        weights = cr.BestOf(logger, score, m=4).joint_weight(action)
        assert abs(weights.mean() - 1) < 4 * weights.std() / np.sqrt(n)


def test_whoever_waits_for_propensities_of_long_pages_is_told():
    """400 pages of 50 positions took three minutes without a word: 2,100 models are fitted."""

    class Heard:
        def __init__(self):
            self.passes, self.steps = {}, 0

        def begin(self, label, total):
            self.passes[label] = total

        def advance(self, rows):
            self.steps += rows

    log = make(Recipe(logger="unknown", shape="K 3", size="60")).log()
    heard = Heard()
    with reporting_to(heard):
        estimated_source(MemorySource(log), "logistic", targets=["new"], replicates=3)
    assert heard.passes == {"bootstrap of propensities": 3} and heard.steps == 3
