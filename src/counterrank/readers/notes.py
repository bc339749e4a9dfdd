"""What a reader assumed or repaired: short codes in `RankingLog.notes`, sentences here."""

MISSING_PROPENSITY = "propensity-missing"
REWARD_PER_RANKING = "reward-per-ranking"
MISSING_REWARD_ZERO = "missing-reward-zero"
SINGLE_POSITION = "single-position-rows"
STANDARD_DROPPED = "standard-rows-dropped"
BY_INDEX = "actions-by-index"

MEANING = {
    MISSING_PROPENSITY: "The log has no propensities; they must be estimated before anything else can be.",
    REWARD_PER_RANKING: "There is one reward a ranking. It stands at the last item: IPS and RIPS use it correctly, "
    "IIPS cannot.",
    MISSING_REWARD_ZERO: "Missing rewards were read as 0, as asked.",
    SINGLE_POSITION: "Each row is one item at one position; values are per item shown, not per page.",
    STANDARD_DROPPED: "Rows of the standard policy have no propensities and were left out.",
    BY_INDEX: "Actions are known only by their index in each event: good for weights, not for reward models.",
}


def explain(note: str) -> str:
    """Return a note with the sentence behind it, or as it is where there is none.

    >>> explain("missing-reward-zero")
    'missing-reward-zero: Missing rewards were read as 0, as asked.'
    """
    return f"{note}: {MEANING[note]}" if note in MEANING else note
