"""What the tables of a team probably are: a job from what their columns hold, with questions where that is open.

Rows of a page are what numbers its places without a gap; an item never stands twice on one page and returns on
others; a unit has one value per page and returns; today's score is the number that orders what was shown.
Names decide only between columns that hold the same kind of thing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

import numpy as np
import pyarrow as pa

from counterrank.common.errors import LogError
from counterrank.common.texts import in_percent
from counterrank.io import prepare, sql, tables
from counterrank.io.choices import Fit, Pages
from counterrank.io.files import expand
from counterrank.io.join import table_files
from counterrank.io.joined_tables import written_keys
from counterrank.io.lists import Exploded, exploded
from counterrank.io.options import ROLES
from counterrank.io.profile import Agreement, Column, Profile, may_be_position
from counterrank.io.roles import OLD, SCORE, named, target_of, words

#: Shares of pages on which a column must do what its role does: number the places, and all else.
NUMBERED, NEARLY = 0.8, 0.995
#: Candidates of a role this close to the best are alike.
ALIKE = 0.01
#: More distinct values than these are no segment.
MOST_LEVELS = 20
#: Forms of columns that name an arm.
_OF_ARMS = ("text", "whole", "truth")
#: Log-likelihood over chance, or over another score, from which on a score is today's.
TELLING = 10.0
#: Share of the keys of another table that are found, from which on columns may be the same key.
SHARED = 0.2
#: Share of the pairs of a table of scores that the log has, below which the table lists further candidates.
ALL_LISTED = 0.98


@dataclass(frozen=True, slots=True)
class Question:
    """A line that waits for an answer: the table of the job where it belongs, and what is unclear."""

    table: str
    line: str
    text: str


@dataclass(slots=True)
class JobGuess:
    """What a job says of tables that nobody described, and what it leaves open."""

    #: Role to column, as the table `[columns]` of a job has it.
    columns: dict[str, str] = field(default_factory=dict)
    targets: list[str] = field(default_factory=list)
    #: How scores become rankings, empty where the log has probabilities, and the slope of today's.
    logger: str = ""
    temperature: float | None = None
    #: How targets become rankings, where the file says it.
    policies: dict[str, str] = field(default_factory=dict)
    context: list[str] = field(default_factory=list)
    segments: list[str] = field(default_factory=list)
    time: str = ""
    unit: str = ""
    #: The column that says which policy served a row, where several did.
    arm: str = ""
    renumber: bool = False
    decimal: str = "."
    rewards: dict[str, str] = field(default_factory=dict)
    #: Keys of [events], and rewards from events.
    events: dict[str, Any] = field(default_factory=dict)
    event_rewards: dict[str, str] = field(default_factory=dict)
    #: Keys of each table of scores.
    scores: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)

    def asks(self, key: str) -> bool:
        """Whether a line for a key is open."""
        return any(question.line.startswith(f"{key} =") for question in self.questions)

    def ask(self, table: str, line: str, text: str) -> None:
        """Leave a line open."""
        self.questions.append(Question(table, line, text))


def decimal_of(sources: Iterable[Any]) -> str:
    """Return the decimal sign of tables: a comma where a column of one holds numbers with commas."""
    samples = (
        tables.sample(expand(source)[0]) if isinstance(source, str) else source
        for source in sources
    )
    return "," if any(map(tables.has_commas, samples)) else "."


def guess_job(
    log: Any,
    events: Any = None,
    scores: Sequence[Any] = (),
    stated: Mapping[str, str] | None = None,
) -> JobGuess:
    """Return what tables probably are: paths, or tables in memory; `known` are roles that a person named."""
    from counterrank.io.guess_events import guess_events

    decimal = decimal_of([log, *scores, *([] if events is None else [events])])
    files = table_files(log, decimal)
    guess = JobGuess(columns=dict(stated or {}), decimal=decimal)
    metadata = tables.schema(files[0]).metadata
    lists = exploded(files, guess.columns)
    if lists is not None:
        files = lists.files
    event_files = [] if events is None else table_files(events, decimal)
    score_files = [table_files(table, decimal) for table in scores]
    with prepare.connected([*files, *event_files, *sum(score_files, [])]) as opened:
        look = LogLook(Profile(opened, "log", files), guess, lists)
        if not look.log.rows:
            raise LogError(f"{files[0].title} is empty: there are no rows to look at")
        score_tables = [
            Profile(opened, f"scores{i}", part_files) for i, part_files in enumerate(score_files)
        ]
        acts = [Profile(opened, "acts", event_files)] if event_files else []
        look.roles([*score_tables, *acts], has_events=bool(acts))
        titles = [table if isinstance(table, str) else "scores" for table in scores]
        look.join_scores(score_tables, titles)
        look.policies(metadata or {})
        look.describe_requests()
        if acts and look.item:
            guess_events(look, *acts)
    # What is called by its role needs no line.
    guess.columns = {role: name for role, name in guess.columns.items() if role != name}
    return guess


@dataclass(frozen=True, slots=True)
class Keys:
    """How another table names the pages and the items of the log: pairs of its columns and ours."""

    page: tuple[str, str]
    item: tuple[str, str] | None
    #: Share of its pairs on pages of the log that the log has too.
    shared: float

    @property
    def join(self) -> list[str]:
        """The keys as a job writes them."""
        return written_keys([self.page, *([self.item] if self.item else [])])


class LogLook:
    """A log of one row per item, shown or not, and the roles of its columns."""

    def __init__(self, log: Profile, guess: JobGuess, lists: Exploded | None) -> None:
        self.log, self.guess, self.lists = log, guess, lists
        self.taken = {name for name in guess.columns.values() if name in log.columns}
        #: The columns that number pages and places, and the items; empty where nothing does.
        self.page = self.place = self.item = ""
        #: Columns that number the rows of pages: places, and numbers of candidates.
        self.numberings: set[str] = set()
        self.by_page: dict[str, Agreement] = {}
        self.by_item: dict[str, Agreement] = {}
        #: Columns of scores by target: the number of their table, none for the log, and their name.
        self.scores: dict[str, tuple[int | None, str]] = {}
        #: Tables of scores and how they name pages and items.
        self.beside: list[tuple[Profile, Keys | None]] = []

    def choose(self, role: str, names: Sequence[str], *, alike: bool = False) -> str:
        """Return the column of a role among those that may be it; ask where neither contents nor names tell."""
        guess = self.guess
        if role in guess.columns or not names:
            return guess.columns.get(role, "")
        hinted = named(names, role)
        chosen = hinted[0] if hinted else names[0]
        further = [name for name in names if name != chosen]
        if further and not hinted and not alike:
            line = f"{role} = {_quoted(names[1])}"
            guess.ask("columns", line, f"or is it {', '.join(further)}? {chosen} looks the same")
        self.taken.add(chosen)
        also = f" (also possible: {', '.join(further)})" if further else ""
        guess.notes.append(f"{role}: {chosen}{also}")
        return chosen

    def free(self, fits: Callable[[Column], object]) -> list[str]:
        """Return the columns that have no role yet and fit."""
        columns = self.log.columns.items()
        return [name for name, column in columns if name not in self.taken and fits(column)]

    @property
    def was_shown(self) -> str:
        """The condition on rows that were shown."""
        return f"{sql.name(self.place)} >= 0" if self.place else "true"

    @property
    def unshown(self) -> int:
        """Rows of candidates that were not shown."""
        return self.log.count(f"({self.was_shown}) IS NOT TRUE")

    def roles(self, tables_beside: Sequence[Profile], *, has_events: bool) -> None:
        """Find the roles of the columns, in the order in which each narrows the next."""
        guess, lists = self.guess, self.lists
        if lists is not None:
            self.page, self.place, self.item = lists.page, lists.place, lists.item
            guess.columns |= lists.columns
            self.taken |= {self.page, self.place, self.item, *lists.columns.values()}
            guess.notes += [
                "layout: one row per ranking",
                f"action: {', '.join(lists.columns.values())}",
            ]
        else:
            self._find_places()
            if not self.page:
                return self._without_pages()
            guess.columns |= {"ranking": self.page, "position": self.place}
            self._find_item(tables_beside)
            if not self.item:
                return
        everything = self.free(lambda column: True)
        self.by_page = self.log.agreement(self.page, everything, self.was_shown)
        self.by_item = self.log.agreement(self.item, everything)
        stamps = self.log.times(everything)
        stamps = [n for n in stamps if self.of_page(n) or self.log.columns[n].form == "time"]
        # Of several the finest: a day says less than a moment.
        stamps.sort(key=self.of_page, reverse=True)
        guess.time = self.choose("time", stamps, alike=True)
        self._find_unit()
        self._find_arm()
        self._find_propensity()
        self._find_rewards(has_events=has_events)

    def _find_places(self) -> None:
        """Find the column whose groups another column numbers from the first place on."""
        columns, stated, rows = self.log.columns, self.guess.columns, self.log.rows
        numbers = [c for c in columns.values() if may_be_position(c)]
        groups = [c.name for c in columns.values() if c.may_be_key and 2 <= c.levels < rows]
        if stated.get("position") in columns:
            numbers = [columns[stated["position"]]]
        if stated.get("ranking") in columns:
            groups = [stated["ranking"]]
        fits = [
            (share, group, place)
            for group in groups
            for place, share in self.log.numbered(group, numbers).items()
            if share >= NUMBERED
        ]
        if not fits:
            return
        self.numberings = {place for _, _, place in fits}
        best = max(share for share, _, _ in fits)
        fits = [fit for fit in fits if fit[0] >= best - ALIKE]
        pages = list(dict.fromkeys(page for _, page, _ in fits))
        # Of columns with equal groups the finest is the page; times and users may be alike by chance.
        pages.sort(key=lambda name: (self.log.is_epoch(columns[name]), -columns[name].levels))
        self.guess.notes.append("layout: one row per shown item or candidate")
        self.page = self.choose("ranking", pages, alike=True)
        places = [place for _, page, place in fits if page == self.page] or [fits[0][2]]
        # Numbers that only some rows have say what was shown; those of all rows may number candidates.
        places.sort(key=lambda name: columns[name].filled == rows and columns[name].low >= 0)
        partly = [name for name in places if columns[name].filled < rows]
        self.place = self.choose("position", places, alike=len(partly) == 1)
        if best < 1 - ALIKE / 10:
            self.guess.renumber = True
            self.guess.notes.append(
                f"{in_percent(1 - best)} of the rankings lack a position: renumber closes the gaps"
            )

    def _without_pages(self) -> None:
        """Take roles by their names where a row is a ranking of one item."""
        guess = self.guess
        self.page = self.place = ""
        usual = {role: named(self.log.columns, role)[:1] for role in ("action", "unit", "time")}
        guess.time = "".join(usual.pop("time"))
        for role, hinted in usual.items():
            if hinted:
                guess.columns.setdefault(role, hinted[0])
        self.taken |= {guess.time, *guess.columns.values()}
        guess.unit = guess.columns.get("unit", "")
        self.item = guess.columns.get("action", "")
        if self.item:
            guess.notes.append("layout: one row per ranking of one item")
            self._find_arm()
            self._find_propensity()
            self._set_rewards(named(self.free(lambda c: c.is_numeric), "reward"))
            return
        guess.notes.append("no column numbers the items of a page, and none holds lists of items")
        numbers = ", ".join(self.free(may_be_position)) or "none"
        place = f"the place of each item on its page, 1, 2, ... (candidates: {numbers})"
        guess.ask("columns", 'position = "..."', place)
        guess.ask("columns", 'ranking = "..."', "the id of the page or request")

    def _find_item(self, tables_beside: Sequence[Profile]) -> None:
        """Find the column that differs on every page and returns on others, as other tables have it."""
        log, guess = self.log, self.guess
        keys = self.free(lambda c: c.may_be_key and c.name not in self.numberings)
        agreement = log.agreement(self.page, keys)
        fits = [
            log.columns[name]
            for name, share in agreement.items()
            if share.distinct >= NEARLY > share.constant
        ]
        # An id of the row returns on no other page.
        returning = ([c.name for c in fits if c.levels < share * c.filled] for share in (0.9, 1.0))
        names = next(filter(None, returning), [])
        if len(names) > 1 and "action" not in guess.columns:
            shared = {
                name: max(
                    (log.overlap(name, t, c) for t in tables_beside for c in t.columns), default=0
                )
                for name in names
            }
            least = max(shared.values()) - ALIKE
            names = [n for n in names if shared[n] >= least] if least >= SHARED - ALIKE else names
        # Columns that name the same items, such as an id and a title.
        same_items = all(
            min(log.agreement(a, [b])[b].constant for a, b in permutations((names[0], name)))
            >= NEARLY
            for name in names[1:]
        )
        self.item = guess.columns["action"] = self.choose("action", names, alike=same_items)
        if not self.item:
            del guess.columns["action"]
            reason = "no column names an item at most once on a page, and again on others"
            guess.ask("columns", 'action = "..."', reason)

    def of_page(self, name: str) -> bool:
        """Whether a column has one value on each page."""
        entries = self.lists.entries if self.lists else ()
        shares = self.by_page.get(name)
        return name not in entries and shares is not None and shares.constant >= NEARLY

    def _find_unit(self) -> None:
        """Find who looked at the page: one value on each page that returns on others."""
        guess, log = self.guess, self.log
        pages = log.columns[self.page].levels
        names = self.free(lambda c: c.may_be_key and self.of_page(c.name))
        repeated = [name for name in names if MOST_LEVELS < log.columns[name].levels < 0.98 * pages]
        ids = [
            name
            for name in repeated
            if log.columns[name].levels > 0.02 * pages
            and not log.is_epoch(log.columns[name])
            and self._looks_like_ids(log.columns[name])
        ]
        guess.unit = self.choose("unit", [*dict.fromkeys([*named(names, "unit"), *ids])])
        if guess.unit:
            guess.columns["unit"] = guess.unit
            return
        guess.notes.append("unit: none found; without it, rows must be declared independent")
        if repeated:
            line = f"unit = {_quoted(repeated[0])}"
            guess.ask("columns", line, "does it name a person or a session?")

    def _looks_like_ids(self, column: Column) -> bool:
        """Whether values are numbers or texts without spaces and with digits, unlike words that people type."""
        value = sql.name(column.name)
        (share,) = self.log.first(
            f"SELECT avg(CAST(regexp_matches(v, '[0-9]') AND NOT regexp_matches(v, '\\s') AS INT)) FROM "
            f"(SELECT DISTINCT CAST({value} AS VARCHAR) AS v FROM log WHERE {value} IS NOT NULL LIMIT 2000)"
        )
        return column.form == "whole" or float(share or 0) >= 0.8

    def _find_arm(self) -> None:
        """Find which policy served a row, where several did: no property of the request."""
        guess = self.guess
        arms = self.free(lambda c: c.form in _OF_ARMS and 2 <= c.levels <= MOST_LEVELS)
        arms = [name for name in arms if not self.by_page or self.of_page(name)]
        if arms := named(arms, "arm"):
            guess.arm = self.choose("arm", arms)

    def _find_propensity(self) -> None:
        """Find probabilities by their name and range; the others of that shape are targets."""
        guess, columns = self.guess, self.log.columns
        if "propensity_scores" in guess.columns:
            return
        fractions = self.free(
            lambda c: (
                c.form in ("number", "whole")
                and 0 <= c.low
                and 0 < c.high <= 1
                and (not self.of_page(c.name) or named([c.name], "propensity"))
                and not c.name.endswith("_dist")
            )
        )
        hinted = named([name for name in fractions if columns[name].low > 0], "propensity")
        chosen = self.choose("propensity", hinted)
        if not chosen:
            return
        guess.columns["propensity"] = chosen
        filled = columns[chosen].filled if chosen in columns else 0
        guess.targets = [
            name
            for name in fractions
            if name != chosen
            and columns[name].form == "number"
            and columns[name].filled == filled
            and not named([name], "reward")
        ]
        self.taken |= {chosen, *guess.targets}
        guess.notes.append(f"targets: {', '.join(guess.targets) or 'none found'}")
        if not guess.targets:
            question = "no column looks like the probabilities of a new policy"
            guess.ask("", 'target = ["..."]', question)

    def _find_rewards(self, *, has_events: bool) -> None:
        """Find what items earned: by name, or numbers that are mostly zero and that items do not fix."""
        guess, shown = self.guess, self.log.count(self.was_shown)
        hinted = named(self.free(lambda c: c.is_numeric and not self.of_page(c.name)), "reward")
        sparse = self.free(
            lambda c: (
                c.is_numeric
                and not self.of_page(c.name)
                and 0 <= c.low < c.high
                # Numbers of candidates that were not shown are no rewards.
                and c.filled <= shown
                and c.zeros >= 0.3 * c.filled
                and self.by_item[c.name].constant < NEARLY
            )
        )
        if hinted and shown == self.log.rows:
            sparse = []
        names = [*dict.fromkeys([*hinted, *sparse])]
        if not has_events:
            self._set_rewards(names)
            if len(names) > 1 and not hinted:
                line = f"primary = {_quoted(names[1])}"
                guess.ask("", line, f"which is the metric: {', '.join(names)}? The first is")
        elif names:
            self.taken.update(names)
            reason = "because events say what items earned"
            guess.notes.append(f"left out: {', '.join(names)}, {reason}")

    def _set_rewards(self, names: Sequence[str]) -> None:
        guess = self.guess
        if stated := guess.columns.get("reward"):
            guess.rewards = {stated: stated}
            return
        guess.rewards = {"_".join(words(name)) or name: name for name in names}
        self.taken.update(names)
        if names:
            guess.notes.append(f"rewards: {', '.join(names)}")
        if len(names) == 1:
            guess.columns["reward"] = names[0]

    def keys_of(self, second: Profile) -> Keys | None:
        """Return the columns by which another table names our pages and items, or nothing."""
        log = self.log
        mine_of_page = [self.page]
        if self.lists is not None:
            columns = [c for c in log.columns.values() if c.may_be_key and self.of_page(c.name)]
            mine_of_page = [c.name for c in columns if c.name not in (self.page, self.item)]
        pages, items = (
            [
                (mine, theirs, share)
                for mine in names
                for theirs in second.columns
                if (share := log.overlap(mine, second, theirs)) >= SHARED
            ]
            for names in (mine_of_page, [self.item])
        )
        fits = [
            (log.pairs_in((mine, self.item), second, (theirs, item)), share, mine, theirs, item)
            for mine, theirs, share in pages
            for _, item, _ in items
            if item != theirs
        ]
        # Names decide between keys that are alike, as twins of an id are.
        fits.sort(
            key=lambda fit: (
                -round(fit[0], 2),
                -round(fit[1], 2),
                fit[2] != fit[3],
                self.item != fit[4],
            )
        )
        if fits and fits[0][0] > 0:
            shared, _, mine, theirs, item = fits[0]
            item_name = self.lists.columns["action"] if self.lists else self.item
            return Keys((mine, theirs), (item_name, item), shared)
        if pages and not items:
            mine, theirs, _ = max(pages, key=lambda page: (round(page[2], 2), page[0] == page[1]))
            return Keys((mine, theirs), None, 1.0)
        return None

    def join_scores(self, score_tables: Sequence[Profile], titles: Sequence[str]) -> None:
        """Find how tables of scores join, and their columns of scores."""
        guess = self.guess
        for number, (second, title) in enumerate(zip(score_tables, titles, strict=True)):
            keys = self.keys_of(second) if self.item else None
            table: dict[str, Any] = {"path": title}
            guess.scores.append(table)
            if keys is None or keys.item is None:
                self.beside.append((second, None))
                names = ", ".join(second.columns)
                lacking = f"{title}: no columns name both the pages and the items of the log"
                guess.notes.append(lacking)
                guess.ask(
                    "scores", 'join = ["..."]', f"which of {names} are the page and the item?"
                )
                continue
            self.beside.append((second, keys))
            numbers = [
                c.name
                for c in second.columns.values()
                if _may_be_score(c)
                and c.name not in (keys.page[1], keys.item[1])
                and not second.is_epoch(c)
            ]
            columns = {}
            path = title if len(numbers) == 1 else ""
            for name in numbers:
                of_file = bool(path) and len(score_tables) > 1
                target = self.target_name(target_of(name, path, of_file=of_file))
                columns[target], self.scores[target] = name, (number, name)
            table |= {"join": keys.join, "columns": columns}
            listed = ", ".join(numbers) or "none"
            guess.notes.append(f"{title} joins by {', '.join(keys.join)}; scores: {listed}")
            if keys.shared < ALL_LISTED and not self.unshown:
                further = f"{title} scores candidates that the log does not list: they join the log"
                guess.notes.append(further)

    @property
    def has_further_candidates(self) -> bool:
        """Whether tables of scores list candidates that the log does not."""
        return any(keys and keys.shared < ALL_LISTED for _, keys in self.beside)

    def target_name(self, name: str) -> str:
        """Return a name that no other target has; names of roles are none."""
        name = f"{name}_ranker" if name in (*ROLES, "") else name
        while name in self.scores:
            name += "_"
        return name

    def policies(self, metadata: Mapping[bytes, bytes]) -> None:
        """Find today's scores among all columns of scores, by the order that they explain; the others are targets."""
        guess, log = self.guess, self.log
        if self.item and self.page and "propensity" not in guess.columns:
            stated = guess.columns.get("propensity_scores")
            if stated is not None and stated not in log.columns:
                raise LogError(f"the log has no column '{stated}' for propensity_scores")
            # Numbers that the item alone decides are features, unless they are called scores.
            names = self.free(
                lambda c: (
                    _may_be_score(c)
                    and not self.of_page(c.name)
                    and (_is_called_score(c.name) or self.by_item[c.name].constant < NEARLY)
                )
            )
            for name in [stated, *names] if stated else names:
                self.scores[self.target_name(target_of(name))] = None, name
            fits = self._fits() if self.scores else {}
            chosen = [t for t, place in self.scores.items() if place == (None, stated)][:1]
            chosen = chosen or self._todays(fits)
            for target in chosen:
                self._set_logger(target, fits[target])
            self._set_targets(chosen)
        # What `simulate` or `plan` wrote into the file.
        written = {
            key.decode(): value.decode()
            for key, value in metadata.items()
            if key.startswith(b"counterrank.")
        }
        if logger := written.get("counterrank.logger"):
            guess.logger, guess.temperature = logger, None
        kinds = {name: written.get(f"counterrank.policy.{name}") for name in guess.targets}
        guess.policies = {name: kind for name, kind in kinds.items() if kind and guess.logger}

    def _fits(self) -> dict[str, Fit]:
        """Return how each score explains today's order."""
        log = self.log
        names = {target: f"s{i}" for i, target in enumerate(self.scores)}

        def numbers(table: int | None) -> str:
            return "".join(
                f", CAST({sql.name(column)} AS DOUBLE) AS {names[target]}"
                for target, (number, column) in self.scores.items()
                if number == table
            )

        # Rankings in lists are found by the column that tables of scores call their pages by.
        by_keys = [keys.page[0] for _, keys in self.beside if keys] if self.lists else []
        page_key = [*by_keys, self.page][0]
        pages = (
            f"WITH log_rows AS (SELECT {log.text(page_key)} AS g, {log.text(self.item)} AS i, "
            f"CAST({sql.name(self.place)} AS DOUBLE) AS p{numbers(None)} FROM log "
            f"WHERE {log.some_groups(self.page)}) SELECT * FROM log_rows"
        )
        for number, (second, keys) in enumerate(self.beside):
            if keys is None or keys.item is None:
                continue
            group = second.text(keys.page[1]) if keys.page[0] == page_key else "NULL"
            pages += (
                f" FULL JOIN (SELECT {group} AS g, {second.text(keys.item[1])} AS i{numbers(number)} FROM "
                f"{second.table} WHERE {group} IN (SELECT g FROM log_rows)) {second.table}_rows USING (g, i)"
            )
        rows = sql.table(log.opened, pages)
        place = _floats(rows["p"])
        place[~(place >= 0)] = np.nan
        arranged = Pages(np.asarray(rows["g"].combine_chunks().dictionary_encode().indices), place)
        return {target: arranged.fit(_floats(rows[name])) for target, name in names.items()}

    def _todays(self, fits: Mapping[str, Fit]) -> list[str]:
        """Return the scores that today's rankings follow; ask where two explain them alike, or none does."""
        guess = self.guess
        ordered = sorted(fits, key=lambda target: -fits[target].gain)
        columns = {target: self.scores[target][1] for target in ordered}
        names = ", ".join(columns.values())
        best = fits[ordered[0]].gain if ordered else 0.0
        explains = best >= TELLING
        alike = [t for t in ordered if fits[t].gain > best - TELLING] if explains else ordered
        hinted = [target for target in alike if {*words(columns[target])} & {*OLD}]
        if hinted:
            return hinted[:1]
        if not explains:
            guess.notes.append(
                f"today's scores: no column explains the order of the shown items{': ' + names if names else ''}"
            )
            told = f"the scores of today's policy, by which pages were ranked ({names or 'no column of scores'})"
            guess.ask("columns", 'propensity_scores = "..."', told)
            told = "or the probability with which each shown item was placed"
            guess.ask("columns", 'propensity = "..."', told)
            return []
        if len(alike) > 1:
            line = f"propensity_scores = {_quoted(columns[alike[1]])}"
            told = f"which are today's scores, {names}? They explain the rankings alike"
            guess.ask("columns", line, told)
        return alike[:1]

    def _set_logger(self, chosen: str, fit: Fit) -> None:
        guess, (number, column) = self.guess, self.scores[chosen]
        if number is None:
            guess.columns["propensity_scores"] = column
            self.taken.add(column)
        else:
            columns = guess.scores[number]["columns"]
            columns["propensity"] = columns.pop(chosen)
        guess.logger = "top" if fit.is_sorted else "plackett-luce"
        guess.temperature = None if fit.is_sorted else fit.temperature
        how = "rankings follow its scores" if fit.is_sorted else "rankings vary around its scores"
        guess.notes += [
            f"scores of today's policy: {column}",
            f"today's policy: {guess.logger}, because {how}",
        ]
        if guess.temperature and not (self.unshown or self.has_further_candidates):
            guess.notes.append(
                "every candidate was shown: if others could have been, add them (rows without a position, or a "
                "table of scores with --scores), or else the temperature is too high"
            )

    def _set_targets(self, chosen: Sequence[str]) -> None:
        """Name the targets; numbers of the log that nothing calls a score may be features, so that is asked."""
        guess = self.guess
        targets = {t: place for t, place in self.scores.items() if t not in chosen}
        in_log = {t: column for t, (number, column) in targets.items() if number is None}
        joined = [t for t in targets if t not in in_log]
        sure = {t: column for t, column in in_log.items() if _is_called_score(column)}
        if len(in_log) == 1 and not joined:
            sure = in_log
        guess.columns |= {f"{target}_scores": column for target, column in sure.items()}
        self.taken.update(sure.values())
        guess.targets = [*sure, *joined]
        shown = (f"{t} ({c})" if (c := targets[t][1]) != t else t for t in guess.targets)
        guess.notes.append(f"targets: {', '.join(shown) or 'none found'}")
        if guess.targets or not (chosen or in_log):
            return
        if not in_log:
            told = "no column looks like the scores of a new policy; give a table of them with --scores"
            guess.ask("", 'target = ["..."]', told)
            return
        line = f"target = {_quoted(sorted(in_log))}"
        guess.ask("", line, "which columns are scores of a new ranker?")
        for target, column in in_log.items():
            line = f"{_quoted(target + '_scores')} = {_quoted(column)}"
            guess.ask("columns", line, f"if {column} is a score")

    def describe_requests(self) -> None:
        """Find what describes the request, and what describes an item."""
        guess, columns, rows = self.guess, self.log.columns, self.log.rows
        describing = self.free(
            lambda c: (
                (c.is_numeric or (c.form == "text" and c.levels <= MOST_LEVELS))
                and words(c.name)[-1:] != ("id",)
                and not self.log.is_epoch(c)
            )
        )
        features = []
        in_candidates = self.lists.by_candidate if self.lists else {*columns}
        for name in describing if self.item else ():
            filled = columns[name].filled == rows
            if not self.by_page or (self.by_page[name].constant >= 1 and filled):
                guess.context.append(name)
            elif self.of_page(name):
                guess.notes.append(
                    f"left out: {name}, which some rows of a ranking lack and others have (fill it to use "
                    "it as context)"
                )
            elif filled and name in in_candidates:
                # Candidates that other tables add have no features.
                features += [name] if self.unshown or not self.has_further_candidates else []
        guess.segments = [
            n for n in guess.context if columns[n].form == "text" and columns[n].levels > 1
        ]
        guess.columns |= {f"z_{name.removeprefix('z_')}": name for name in features}
        described = {"context": guess.context, "segments": guess.segments, "features": features}
        guess.notes += [
            f"{label}: {', '.join(names)}" for label, names in described.items() if names
        ]


def _is_called_score(name: str) -> bool:
    return bool({*words(name)} & {*SCORE})


def _may_be_score(column: Column) -> bool:
    """Whether a column holds numbers that are no whole ones, unless it is called a score."""
    called = column.form == "whole" and _is_called_score(column.name)
    return column.levels > 2 and (column.form == "number" or called)


def _floats(column: pa.ChunkedArray) -> Any:
    return column.combine_chunks().to_numpy(zero_copy_only=False).astype(float)


def _quoted(names: str | list[str]) -> str:
    return json.dumps(names, ensure_ascii=False)
