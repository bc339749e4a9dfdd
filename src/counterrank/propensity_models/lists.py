"""Logs that show few different lists per context: the frequency of each list is the logging policy."""

import numpy as np
from numpy.typing import NDArray

from counterrank.errors import PropensityError
from counterrank.log import RankingLog
from counterrank.policies import Enumerated
from counterrank.propensity_models.model import group_keys, with_propensity

_NUMBERS = 50_000_000


def by_list(log: RankingLog, columns: tuple[str, ...]) -> RankingLog:
    """Return the log whose policy is the frequency of each list within the rows of equal `columns`.

    The frequencies are of the same rows, so a value is sum over lists of pi(list) times the mean
    reward where it was shown; the target's probability of lists never shown is lost, and seen as a
    mean weight below 1.
    """
    _, group = np.unique(group_keys(log, columns), return_inverse=True)
    group = np.asarray(group).reshape(-1)
    rows, back = np.unique(np.column_stack([group, log.action]), axis=0, return_inverse=True)
    back = np.asarray(back).reshape(-1)
    place = np.concatenate(
        [np.arange(size) for size in np.bincount(rows[:, 0])]
    )  # index of a list in its group
    groups, longest = int(rows[-1, 0]) + 1, int(place.max()) + 1
    if groups * longest * log.K > _NUMBERS:
        raise PropensityError(
            f"{groups:,} contexts with up to {longest:,} lists are too many to tabulate; name "
            "fewer columns"
        )
    _refuse_single(rows[:, 0], group, columns)
    rankings = np.full((groups, longest, log.K), -1, dtype=np.int64)
    rankings[rows[:, 0], place] = rows[:, 1:]
    probs = np.zeros((groups, longest))
    probs[rows[:, 0], place] = np.bincount(back, minlength=len(rows))
    probs /= probs.sum(axis=1, keepdims=True)
    policy = Enumerated(rankings, probs, group, n_actions=log.n_actions)
    once = int((np.bincount(back) == 1).sum())
    return with_propensity(log, policy, None, (_note(len(rows), groups, once / log.n),))


def _refuse_single(
    owner: NDArray[np.int64], group: NDArray[np.int64], columns: tuple[str, ...]
) -> None:
    lists = np.bincount(owner)
    if (lists > 1).any():
        return
    named = f"equal {', '.join(columns)}" if columns else "the whole log"
    raise PropensityError(
        f"the logging policy is deterministic: rows of {named} always show one list, so no other "
        "can be compared. Name fewer or coarser columns if the same context saw different lists; "
        "else randomise a few percent of requests and log the probabilities, or run an A/B test"
    )


def _note(lists: int, groups: int, unseen: float) -> str:
    return (
        f"estimated-propensity: each list's frequency ({lists:,} lists in {groups:,} contexts) "
        f"stands for its propensity; about {unseen:.1%} of requests would show a list not seen "
        "here (Good-Turing), and choices that depended on more than these columns bias the result"
    )
