"""Checks made once, at the border: one linear pass each, one clear message when they fail."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.common.errors import ConfigError, LogError, PolicyError, PropensityError
from counterrank.common.messages import row_name, say
from counterrank.common.texts import suggestion
from counterrank.policies import Candidates, Policy

_LARGEST = float(np.finfo(np.float64).max)
#: Rounding of a sum of many probabilities may push a value this far above one.
_ABOVE_ONE = 1e-9
#: A weight is at most the inverse of this, so that its square is still a number.
_SMALLEST = 1e-100
#: Of a reward, and the inverse of the smallest: fourth powers stay numbers at both ends.
_LARGEST_REWARD = 1e60
_LARGEST_WEIGHT = 1e60
#: Of a context or a score: beyond it stand placeholders, and squares overflow.
_LARGEST_NUMBER = 1e100
#: Ids number the rows of tables.
_LARGEST_ID = 2**31 - 1


def _first_place(bad: Bools, start: int = 0) -> tuple[tuple[int, ...], str]:
    """Return where the first of bad entries (n, K) stands, as an index and in words."""
    row, position = np.argwhere(bad)[0].tolist()
    return (row, position), f"{row_name(start + row)}, position {position + 1}"


def actions(values: Any) -> Ints:
    """Return (n, K) int64 action ids, or say what is wrong with them."""
    array = np.asarray(values)
    if array.ndim != 2:
        raise LogError(
            f"action must be (n, K): one row per ranking; got an array of shape {array.shape}"
        )
    if array.shape[0] == 0 or array.shape[1] == 0:
        what = "no ranking has a position (K = 0)" if array.shape[0] else "there are no rankings"
        raise LogError(f"the log is empty: {what}; action has shape {array.shape}")
    if array.dtype.kind == "f":
        array = _whole_numbers(array)
    if array.dtype.kind not in "iub":
        raise LogError(
            f"action must hold integer ids, got {array.dtype}",
            remedy="read_log and from_frame encode names",
        )
    # Tables over items (counts, features, scores) are as long as the largest id: a hash as id would
    # ask for all memory.
    if int(array.max()) > _LARGEST_ID:
        raise LogError(
            f"action has the id {array.max()}",
            remedy="ids number the items from 0. read_log and from_frame encode larger ones",
        )
    return np.ascontiguousarray(array, dtype=np.int64)


def _whole_numbers(array: NDArray[Any]) -> Ints:
    # Frames turn ids into floats where some are missing: a gap is padding, a fraction a mistake.
    ids = np.where(np.isnan(array), -1.0, array)
    bad = ~np.isfinite(ids) | (ids != np.rint(ids))
    if bad.any():
        index, where = _first_place(bad)
        raise LogError(f"action is {array[index]} at {where}", remedy="ids must be integers")
    return ids.astype(np.int64)


def lengths(action: Ints, *, start: int) -> Ints:
    """Return the number of items of each ranking (n,); padding may only stand at the end."""
    from counterrank.kernels.validate import ranking_lengths

    result = np.empty(action.shape[0], dtype=np.int64)
    row = ranking_lengths(action, result)
    if row >= 0 and action[row].min() < -1:
        index, where = _first_place(action < -1, start)
        raise LogError(
            f"action is {action[index]} at {where}",
            remedy="ids start at 0 and -1 pads a shorter ranking",
        )
    if row >= 0:
        raise LogError(
            f"{row_name(start + row)} has an item after an empty position: {action[row].tolist()}",
            remedy="move padding to the end",
        )
    if result.min() == 0:
        raise LogError(
            f"{row_name(start + int(result.argmin()))} shows no item at all",
            remedy="drop empty rankings",
        )
    return result


def spread_rewards(values: Any, length: Ints, shape: tuple[int, ...]) -> Floats:
    """Return one reward per ranking (n,) as (n, K), at the last item.

    >>> spread_rewards([2.0, 3.0], np.array([2, 1]), (2, 2)).tolist()
    [[0.0, 2.0], [3.0, 0.0]]
    """
    spread = np.zeros(shape)
    spread[np.arange(shape[0]), length - 1] = _numbers(values, "reward", shape[:1])
    return spread


def page_rewards(reward: Floats, length: Ints, *, start: int) -> None:
    """Raise where a log of one reward per ranking has one before the last item."""
    early = (reward != 0.0) & (np.arange(reward.shape[1]) < length[:, None] - 1)
    if early.any():
        row, position = np.argwhere(early)[0]
        raise LogError(
            f"row {start + row} has a reward at position {position + 1}, but there is one reward per "
            "ranking, at its last item; give such rewards as one number per row (n,), or leave "
            "page_reward out"
        )


def named_rewards(
    values: Any, name: str, length: Ints, shape: tuple[int, ...], *, start: int
) -> Floats:
    """Return one of several rewards, (n, K) with zeros in the padding or (n,), all of it finite."""
    if np.ndim(values) != 1:
        return rewards(values, length, shape, start=start, name=f"reward '{name}'")
    numbers = _numbers(values, f"reward '{name}'", shape[:1])
    rewards(
        numbers[:, None], np.ones_like(length), (shape[0], 1), start=start, name=f"reward '{name}'"
    )
    return numbers


def rewards(
    values: Any, length: Ints, shape: tuple[int, ...], *, start: int, name: str = "reward"
) -> Floats:
    """Return (n, K) finite rewards, zero in the padding."""
    array = _numbers(values, name, shape)
    from counterrank.kernels.validate import first_bad

    bad = first_bad(array, length, -_LARGEST, _LARGEST)
    if bad >= 0:
        row, position = divmod(bad, shape[1])
        used = np.arange(shape[1]) < length[:, None]
        count = int((~np.isfinite(array) & used).sum())
        raise LogError(
            f"{name} has {count} missing or infinite value{('s' if count > 1 else '')} (first: "
            f"{row_name(start + row)}, position {position + 1}, value {array[row, position]})",
            remedy=(
                f"drop those rows, or say {say('--missing-reward', 'zero')} if no event means "
                "no reward"
            ),
        )
    if (length < shape[1]).any():
        # Not in place: it may be the caller's own array.
        array = np.where(np.arange(shape[1]) < length[:, None], array, 0.0)
    return array


def refuse_scale(rewards: Floats, *, small: bool = True) -> None:
    """Raise where rewards are so large, or where asked so `small`, that their squares are no numbers.

    Logs hold any number; what is estimated from them are means and variances.
    """
    largest = max(float(rewards.max(initial=0.0)), -float(rewards.min(initial=0.0)))
    if largest > _LARGEST_REWARD:
        fault = "overflow; give them in larger units"
    elif small and 0.0 < largest < 1.0 / _LARGEST_REWARD:
        fault = "vanish; give them in smaller units"
    else:
        return
    raise LogError(f"the largest reward is {largest:.3g}: squares of such numbers {fault}")


def propensities(
    probabilities: Floats,
    length: Ints,
    shape: tuple[int, ...],
    *,
    name: str,
    positive: bool,
    start: int,
) -> None:
    """Raise unless every used value is a probability: in (0, 1] for the logger, in [0, 1] for a target.

    They are numbers of shown items (n, K), or of whole rankings (n,).
    """
    from counterrank.kernels.validate import first_bad

    expected = tuple(shape[: probabilities.ndim])
    if probabilities.shape != expected:
        raise PropensityError(f"'{name}' has shape {probabilities.shape}, the log needs {expected}")
    values = probabilities.reshape(shape[0], -1)
    used = np.ones_like(length) if probabilities.ndim == 1 else length
    # The kernel asks for values above `low`: zero is allowed to a target, so the bound lies just
    # below.
    low = _SMALLEST if positive else -np.finfo(np.float64).tiny
    bad = first_bad(values, used, low, 1.0 + _ABOVE_ONE)
    if bad < 0:
        return
    row, position = divmod(bad, values.shape[1])
    where = row_name(start + row) + (
        "" if probabilities.ndim == 1 else f", position {position + 1}"
    )
    raise PropensityError(_what_is_wrong(values, used, float(values[row, position]), name, where))


def _what_is_wrong(values: Floats, used: Ints, value: float, name: str, where: str) -> str:
    inside = values[np.arange(values.shape[1]) < used[:, None]]
    if np.isnan(value):
        return f"'{name}' is missing (NaN) at {where}; every shown item needs a probability"
    # Before single values: the logarithm of a sure item is 0, and "is 0" would mislead.
    if np.nanmax(inside) <= 0 and np.nanmin(inside) < 0:
        return (
            f"'{name}' holds log-probabilities (all values <= 0; {value:.6g} at {where}); "
            "pass probabilities: exp of these values"
        )
    if value > 1:
        return (
            f"'{name}' is {value:.6g} at {where}, above 1; probabilities are wanted, not "
            "weights, odds or percent"
        )
    if value == 0:
        return (
            f"'{name}' is 0 at {where}, yet this item was shown; a logged item has a positive "
            "propensity. Check the join of log and propensities, or rounding"
        )
    if 0 < value <= _SMALLEST:
        return (
            f"'{name}' is {value:.6g} at {where}; nothing of that probability is ever shown. Look "
            "for a failed "
            "computation, or a product over items where each item's own probability is wanted"
        )
    return f"'{name}' is {value:.6g} at {where}; probabilities lie in (0, 1]"


def policy(bound: Policy, n: int, name: str) -> Policy:
    """Return the policy if it has a row for every ranking (or one for all)."""
    if bound.n_rows not in (1, n):
        raise PolicyError(
            f"policy '{name}' has {bound.n_rows} rows, the log has {n}",
            remedy="they must match row by row",
        )
    return bound


def known_items(logger: Policy, action: Ints, start: int) -> None:
    """Raise where an item was shown that the logger's policy does not know."""
    beyond = action >= logger.n_actions
    if beyond.any():
        index, where = _first_place(beyond, start)
        raise LogError(
            f"action has {beyond.sum()} items that the logger's policy does not know (first: "
            f"{where}, item {action[index]})",
            remedy=f"its items are 0 to {logger.n_actions - 1}, in the order of its scores",
        )


def candidates(raw: Any, n: int) -> Candidates:
    """Return what each row could have shown, from `Candidates` or a list of lists."""
    sets = raw if isinstance(raw, Candidates) else Candidates.from_lists(raw)
    if sets.n != n:
        raise LogError(
            f"candidates have {sets.n} rows, the log has {n}",
            remedy="they must match row by row",
        )
    return sets


def context(values: Any, names: tuple[str, ...], n: int) -> tuple[Floats | None, tuple[str, ...]]:
    """Return (n, d) numbers and their names; NaN marks a missing value and gets its own branch in trees."""
    if values is None and not names:
        return None, ()
    try:
        array = np.ascontiguousarray(np.empty((n, 0)) if values is None else values, np.float64)
    except (TypeError, ValueError) as problem:
        raise LogError(
            f"context holds something that is no number ({problem})",
            remedy=(
                "give categories as codes with their labels in `categories`, or read the log "
                "from a frame or file, which does that"
            ),
        ) from None
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[0] != n:
        raise LogError(f"context must be ({n}, d), one row per ranking; got {array.shape}")
    if (np.abs(array) > _LARGEST_NUMBER).any():
        row, feature = np.argwhere(np.abs(array) > _LARGEST_NUMBER)[0]
        raise LogError(
            f"context is {array[row, feature]:.3g} at {row_name(row)}, column {feature}",
            remedy="use NaN for missing values",
        )
    names = names or tuple(f"x_{j}" for j in range(array.shape[1]))
    if len(names) != array.shape[1]:
        raise LogError(
            f"context has {array.shape[1]} columns but {len(names)} names: {', '.join(names)}"
        )
    return array, names


def distributions(dists: Mapping[str, Any], action: Ints, *, start: int) -> dict[str, Floats]:
    """Return whole distributions (n, A) or (n, K, A) whose rows sum to one and have a place for each shown item."""
    checked = {name: _distribution(value, action.shape, name) for name, value in dists.items()}
    for name, values in checked.items():
        size = values.shape[-1]
        if int(action.max(initial=-1)) >= size:
            index, where = _first_place(action >= size, start)
            raise LogError(
                f"'{name}_dist' has {size} probabilities, for the items 0 to {size - 1}, but item "
                f"{action[index]} was shown ({where}); "
                "give one for each item in the order of the ids, or of the sorted names"
            )
    return checked


def _distribution(values: Any, shape: tuple[int, ...], name: str) -> Floats:
    array, (n, length) = np.ascontiguousarray(values, dtype=np.float64), shape
    if array.shape[:-1] not in ((n,), (n, length)):
        raise PropensityError(
            f"'{name}_dist' must be (n, A) or (n, K, A) with n={n}, K={length}; got {array.shape}"
        )
    # A comparison that NaN fails.
    bad = ~(np.abs(array.sum(axis=-1) - 1.0) < 1e-6) | (array.min(axis=-1) < 0)
    if bad.any():
        where = np.unravel_index(np.argmax(bad), bad.shape)
        place = f"{row_name(where[0])}" + (f", position {where[1] + 1}" if len(where) > 1 else "")
        raise PropensityError(
            f"'{name}_dist' is not a distribution at {place}: it sums to {array[where].sum():.6g}, "
            f"smallest entry {array[where].min():.6g}"
        )
    return array


def known_names(table: str, names: Iterable[str], what: str, allowed: Sequence[str]) -> None:
    """Raise for a name in a table that nothing reads, with the nearest one that is read."""
    for name in names:
        if name not in allowed:
            raise LogError(
                f"{table} has '{name}', which is no {what} of this log{suggestion(name, allowed)}; "
                f"{table} takes {', '.join(allowed) or 'none'}"
            )


def position_weights(weights: str | ArrayLike, length: int) -> Floats:
    """Return alpha (K,), how much a reward at position k counts.

    From "uniform", "dcg" (1/log2(k+1), Jarvelin & Kekalainen 2002), "1,.5,..." or numbers.

    >>> position_weights("dcg", 3).round(3).tolist()
    [1.0, 0.631, 0.5]
    >>> position_weights("1, 0.5", 2).tolist()
    [1.0, 0.5]
    """
    if isinstance(weights, str):
        name = weights.strip().lower()
        if name in ("uniform", "dcg"):
            discount: Floats = 1.0 / np.log2(np.arange(length) + 2.0)
            return discount if name == "dcg" else np.ones(length)
        weights = name.split(",")
    try:
        values = np.asarray(weights, dtype=np.float64)
    except ValueError:
        raise ConfigError(
            f"position weights '{','.join(map(str, np.ravel(weights)))}' are not understood; use "
            "uniform, dcg, or numbers like 1,0.5,0.25"
        ) from None
    # The default of a log: every position counts once.
    if values.size == 0:
        return np.ones(length)
    if values.shape != (length,):
        raise ConfigError(
            f"there are {length} positions but {values.size} position weights; give one for each"
        )
    if not ((values >= 0) & (values <= _LARGEST_WEIGHT)).all() or not (values > 0).any():
        raise ConfigError(
            f"position weights must lie between 0 and {_LARGEST_WEIGHT:.0e} and not all be zero; got "
            f"{values.tolist()}"
        )
    return values


def column(values: Any, n: int, name: str) -> NDArray[Any]:
    """Return a one-dimensional column of n entries."""
    array = np.asarray(values)
    if array.shape[:1] != (n,):
        raise LogError(f"column '{name}' has shape {array.shape}, expected {n} rows")
    return array


def row_weights(values: Any, n: int, *, start: int) -> Floats:
    """Return weights (n,) of rows: positive finite numbers."""
    try:
        weights: Floats = np.asarray(column(values, n, "weight"), dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise LogError(f"weights of rows are numbers: {problem}") from None
    if weights.ndim != 1:
        raise LogError(f"weight has shape {weights.shape}, one number per ranking is wanted")
    wrong = ~((weights > 0) & np.isfinite(weights))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise LogError(
            f"the weight is {weights[row]} at {row_name(start + row)}",
            remedy="give one over the probability that the row was kept, 1 where it always was",
        )
    return weights


def no_weight(log: Any, what: str) -> None:
    """Raise where rows have weights that would be ignored."""
    if log.weight is not None:
        raise ConfigError(
            f"weights of rows ({say('--weight', 'COLUMN')}) are used by evaluate and check, not by {what}",
            remedy="use a log in which every row was kept with the same probability",
        )


def buckets(unit: NDArray[Any] | None, rows: Ints) -> Ints:
    """Return the hash bucket (n,) of each row's unit, or of the row by its number in the whole log."""
    from counterrank.kernels import hashing

    n = len(rows)
    result = np.empty(n, dtype=np.int64)
    if unit is None:
        hashing.row_buckets(rows, result)
    elif unit.dtype.kind in "iub":
        hashing.integer_buckets(unit.astype(np.int64), result)
    else:
        # By the bytes: Python salts the hash of text in every process, and folds must stay.
        encoded = [str(value).encode("utf-8") for value in unit.tolist()]
        offsets = np.zeros(n + 1, dtype=np.int64)
        np.cumsum([len(value) for value in encoded], out=offsets[1:])
        hashing.string_buckets(offsets, np.frombuffer(b"".join(encoded), dtype=np.uint8), result)
    return result


def _numbers(values: Any, name: str, shape: tuple[int, ...]) -> Floats:
    try:
        array = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise LogError(f"{name} must hold numbers: {problem}") from problem
    if array.shape != shape:
        raise LogError(
            f"{name} has shape {array.shape}, but action has {tuple(shape)}",
            remedy="they must match",
        )
    return array
