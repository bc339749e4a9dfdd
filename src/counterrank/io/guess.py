"""What the tables of a team probably are: a job from what their columns hold, with questions where that is open.

Rows of a page are what numbers its places without a gap; an item never stands twice on one page and returns on
others; a unit has one value per page and returns; today's score is the number that orders what was shown.
Names decide only between columns that hold the same kind of thing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from counterrank.common.errors import LogError
from counterrank.common.texts import in_percent
from counterrank.io import prepare, sql, tables
from counterrank.io.choices import Fit, Pages
from counterrank.io.files import expand
from counterrank.io.join import table_files
from counterrank.io.lists import Exploded, exploded
from counterrank.io.options import ROLES
from counterrank.io.profile import Column, Profile, may_be_position
from counterrank.io.roles import OLD, SCORE, named, target_of, words

#: Shares of pages on which a column must do what its role does: number the places, and all else.
NUMBERED, NEARLY = 0.8, 0.995
#: Candidates of a role this close to the best are alike.
ALIKE = 0.01
#: More distinct values than these are no segment.
MOST_LEVELS = 20
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
    all_files = [*files, *event_files, *(file for several in score_files for file in several)]
    with prepare.connected(all_files) as opened:
        look = LogLook(Profile(opened, "log", files), guess, lists)
        if not look.log.rows:
            raise LogError(f"{files[0].title} is empty: there are no rows to look at")
        score_tables = [
            Profile(opened, f"scores{i}", part_files) for i, part_files in enumerate(score_files)
        ]
        acts = Profile(opened, "acts", event_files) if event_files else None
        look.roles([*score_tables, *([acts] if acts else [])], has_events=acts is not None)
        look.join_scores(
            score_tables, [table if isinstance(table, str) else "scores" for table in scores]
        )
        look.policies(metadata or {})
        look.describe_requests()
        if acts is not None and look.item:
            guess_events(look, acts)
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
        pairs = [self.page, *([self.item] if self.item else [])]
        return [mine if mine == theirs else f"{mine}={theirs}" for mine, theirs in pairs]


class LogLook:
    """A log of one row per item, shown or not, and the roles of its columns."""

    def __init__(self, log: Profile, guess: JobGuess, lists: Exploded | None) -> None:
        self.log, self.guess, self.lists = log, guess, lists
        self.taken = {name for name in guess.columns.values() if name in log.columns}
        #: The columns that number pages and places, and the items; empty where nothing does.
        self.page = self.place = self.item = ""
        #: Columns that number the rows of pages: places, and numbers of candidates.
        self.numberings: set[str] = set()
        self.numeric_scores: dict[str, str] = {}
        self.keys: list[Keys | None] = []
        self.beside: list[Profile] = []

    def choose(
        self, role: str, names: Sequence[str], *, alike: bool = False, table: str = "columns"
    ) -> str:
        """Return the column of a role among those that may be it; ask where neither contents nor names tell."""
        stated = self.guess.columns.get(role)
        if stated is not None:
            return stated
        if not names:
            return ""
        hinted = [name for name in named(names, role) if name in names]
        chosen = hinted[0] if hinted else names[0]
        if len(names) > 1 and not hinted and not alike:
            alternatives = ", ".join(names[1:])
            self.guess.ask(
                table,
                f"{role} = {_quoted(names[1])}",
                f"or is it {alternatives}? {chosen} looks the same",
            )
        self.taken.add(chosen)
        self.note(role, chosen, [name for name in names if name != chosen])
        return chosen

    def note(self, role: str, chosen: str, alternatives: Iterable[str] = ()) -> None:
        """Say what was taken for what."""
        listed = ", ".join(alternatives)
        self.guess.notes.append(
            f"{role}: {chosen}" + (f" (also possible: {listed})" if listed else "")
        )

    def free(self) -> list[Column]:
        """Return the columns that have no role yet."""
        return [column for name, column in self.log.columns.items() if name not in self.taken]

    @property
    def was_shown(self) -> str:
        """The condition on rows that were shown."""
        return f"{sql.name(self.place)} >= 0" if self.place else "true"

    def roles(self, tables_beside: Sequence[Profile], *, has_events: bool) -> None:
        """Find the roles of the columns, in the order in which each narrows the next."""
        columns = self.guess.columns
        if self.lists is None:
            self._find_places()
            if not self.page:
                return self._without_pages()
            columns["ranking"], columns["position"] = self.page, self.place
        else:
            self.page, self.place = self.lists.page, self.lists.place
            self.taken |= {self.page, self.place}
            self.guess.notes.append("layout: one row per ranking")
        self._find_item(tables_beside)
        if not self.item:
            return
        free = [column.name for column in self.free()]
        self.by_page = self.log.agreement(self.page, free, self.was_shown)
        self.by_item = self.log.agreement(self.item, free)
        self._find_time()
        self._find_unit()
        self._find_propensity()
        self._find_rewards(has_events=has_events)

    def _find_places(self) -> None:
        """Find the column whose groups another column numbers from the first place on."""
        columns, stated = self.log.columns, self.guess.columns
        numbers = [column for column in columns.values() if may_be_position(column)]
        numbers = [columns[stated["position"]]] if stated.get("position") in columns else numbers
        groups = [c for c in columns.values() if c.may_be_key and 2 <= c.levels < self.log.rows]
        groups = [columns[stated["ranking"]]] if stated.get("ranking") in columns else groups
        fits: list[tuple[float, str, str]] = []
        for group in groups:
            alternatives = [number for number in numbers if number.name != group.name]
            counted = self.log.numbered(group.name, alternatives) if alternatives else {}
            fits += [
                (share, group.name, place)
                for place, (share, size) in counted.items()
                if share >= NUMBERED and size >= 1.2
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
        places.sort(
            key=lambda name: columns[name].filled == self.log.rows and columns[name].low >= 0
        )
        partly = [name for name in places if columns[name].filled < self.log.rows]
        self.place = self.choose("position", places, alike=len(partly) == 1)
        if best < 1 - ALIKE / 10:
            self.guess.renumber = True
            self.guess.notes.append(
                f"{in_percent(1 - best)} of the rankings lack a position: renumber closes the gaps"
            )

    def _without_pages(self) -> None:
        """Take roles by their names where a row is a ranking of one item."""
        guess, names = self.guess, list(self.log.columns)
        self.page = self.place = ""
        for role in ("action", "unit", "time"):
            if role not in guess.columns and (hinted := named(names, role)):
                self.taken.add(hinted[0])
                if role == "time":
                    guess.time = hinted[0]
                else:
                    guess.columns[role] = hinted[0]
        guess.unit = guess.columns.get("unit", "")
        if "action" not in guess.columns:
            guess.notes.append(
                "no column numbers the items of a page, and none holds lists of items"
            )
            numbers = ", ".join(c.name for c in self.free() if may_be_position(c)) or "none"
            guess.ask(
                "columns",
                'position = "..."',
                f"the place of each item on its page, 1, 2, ... (candidates: {numbers})",
            )
            guess.ask("columns", 'ranking = "..."', "the id of the page or request")
            return
        guess.notes.append("layout: one row per ranking of one item")
        self.item = guess.columns["action"]
        self.by_page = self.by_item = {}
        self._find_propensity()
        rewards = [name for name in named(names, "reward") if self.log.columns[name].is_numeric]
        self._set_rewards(rewards)

    def _find_item(self, tables_beside: Sequence[Profile]) -> None:
        """Find the column that differs on every page and returns on others."""
        guess = self.guess
        if self.lists is not None:
            self.item = self.lists.item
            guess.columns |= self.lists.columns
            self.taken |= {self.item, *self.lists.columns.values()}
            self.note("action", ", ".join(self.lists.columns.values()))
            return
        stated = guess.columns.get("action")
        if stated is not None:
            self.item = stated
            return
        names = self._item_columns(tables_beside)
        if not names:
            guess.ask(
                "columns",
                'action = "..."',
                "no column names an item at most once on a page, and again on others",
            )
            return
        same_items = len(names) > 1 and all(self._same_items(names[0], name) for name in names[1:])
        self.item = self.choose("action", names, alike=same_items)
        guess.columns["action"] = self.item

    def _item_columns(self, tables_beside: Sequence[Profile]) -> list[str]:
        """Return the columns that differ on a page and return on others; those that other tables have, if any."""
        keys = [c for c in self.free() if c.may_be_key and c.name not in self.numberings]
        agreement = self.log.agreement(self.page, [column.name for column in keys])
        fits = [
            column
            for column in keys
            if agreement[column.name].distinct >= NEARLY
            and agreement[column.name].constant < NEARLY
        ]
        # An id of the row returns on no other page.
        returning = [
            [column.name for column in fits if column.levels < share * column.filled]
            for share in (0.9, 1.0)
        ]
        names = returning[0] or returning[1]
        if len(names) < 2 or not tables_beside:
            return names
        shared = {
            name: max(
                self.log.overlap(name, second, theirs)
                for second in tables_beside
                for theirs in second.columns
            )
            for name in names
        }
        largest = max(shared.values())
        return (
            [name for name in names if shared[name] >= largest - ALIKE]
            if largest >= SHARED
            else names
        )

    def _same_items(self, name: str, second_name: str) -> bool:
        """Whether two columns name the same items, such as an id and a title."""
        pairs = (
            self.log.agreement(name, [second_name])[second_name],
            self.log.agreement(second_name, [name])[name],
        )
        return min(pair.constant for pair in pairs) >= NEARLY

    def of_page(self, name: str) -> bool:
        """Whether a column has one value on each page."""
        if self.lists and name in self.lists.entries:
            return False
        return name in self.by_page and self.by_page[name].constant >= NEARLY

    def _find_time(self) -> None:
        columns = self.log.columns
        stamps = [c.name for c in self.free() if c.form == "time"]
        epochs = [c.name for c in self.free() if self.log.is_epoch(c)]
        stamps += [name for name in epochs if name not in stamps and self.of_page(name)]
        stamps += [
            name
            for name in named([c.name for c in self.free()], "time")
            if name not in stamps and columns[name].form in ("whole", "text") and self.of_page(name)
        ]
        # Of several the finest: a day says less than a moment.
        stamps.sort(key=lambda name: (not self.of_page(name), -columns[name].levels))
        self.guess.time = self.choose("time", stamps, alike=True)

    def _find_unit(self) -> None:
        """Find who looked at the page: one value on each page that returns on others."""
        guess, log = self.guess, self.log
        if "unit" in guess.columns:
            guess.unit = guess.columns["unit"]
            return
        pages = log.columns[self.page].levels
        free = [column for column in self.free() if column.may_be_key and self.of_page(column.name)]
        hinted = named([column.name for column in free], "unit")
        ids = [
            column.name
            for column in free
            if column.levels > max(MOST_LEVELS, 0.02 * pages)
            and column.levels < 0.98 * pages
            and not log.is_epoch(column)
            and self._looks_like_ids(column)
        ]
        if hinted or ids:
            guess.columns["unit"] = guess.unit = self.choose(
                "unit", [*dict.fromkeys([*hinted, *ids])]
            )
            return
        guess.notes.append("unit: none found; without it, rows must be declared independent")
        if "independent-rows" not in guess.columns:
            texts = [c.name for c in free if c.levels > MOST_LEVELS and c.levels < 0.98 * pages]
            if texts:
                guess.ask(
                    "columns", f"unit = {_quoted(texts[0])}", "does it name a person or a session?"
                )

    def _looks_like_ids(self, column: Column) -> bool:
        """Whether values are numbers or texts without spaces and with digits, unlike words that people type."""
        if column.form == "whole":
            return True
        value = sql.name(column.name)
        (share,) = self.log.first(
            f"SELECT avg(CAST(regexp_matches({value}, '[0-9]') AND NOT regexp_matches({value}, '\\s') AS INT)) FROM "
            f"(SELECT DISTINCT {value} FROM log WHERE {value} IS NOT NULL LIMIT 2000)"
        )
        return float(share or 0) >= 0.8

    def _find_propensity(self) -> None:
        """Find probabilities by their name and range; the others of that shape are targets."""
        guess = self.guess
        if "propensity_scores" in guess.columns:
            return
        fractions = [
            c.name
            for c in self.free()
            if c.form in ("number", "whole")
            and 0 <= c.low
            and 0 < c.high <= 1
            and (not self.of_page(c.name) or named([c.name], "propensity"))
            and not c.name.endswith("_dist")
        ]
        chosen = guess.columns.get("propensity", "")
        if not chosen:
            hinted = named(
                [name for name in fractions if self.log.columns[name].low > 0], "propensity"
            )
            if not hinted:
                return
            chosen = guess.columns["propensity"] = self.choose("propensity", hinted)
        self.taken.add(chosen)
        filled = self.log.columns[chosen].filled if chosen in self.log.columns else 0
        similar = [
            name
            for name in fractions
            if name != chosen
            and self.log.columns[name].form == "number"
            and self.log.columns[name].filled == filled
            and not named([name], "reward")
        ]
        self.taken.update(similar)
        guess.targets = similar
        guess.notes.append(f"targets: {', '.join(similar) or 'none found'}")
        if not similar:
            guess.ask(
                "", 'target = ["..."]', "no column looks like the probabilities of a new policy"
            )

    def _find_rewards(self, *, has_events: bool) -> None:
        """Find what items earned: by name, or numbers that are mostly zero and that items do not fix."""
        numeric = [c for c in self.free() if c.is_numeric and not self.of_page(c.name)]
        hinted = [name for name in named([c.name for c in numeric], "reward")]
        # Numbers of candidates that were not shown are no rewards.
        (shown,) = self.log.first(f"SELECT count(*) FROM log WHERE {self.was_shown}")
        sparse = (
            [
                c.name
                for c in numeric
                if c.low >= 0
                and c.high > 0
                and c.filled <= shown
                and c.zeros >= 0.3 * c.filled
                and self.by_item[c.name].constant < NEARLY
            ]
            if not hinted or shown < self.log.rows
            else []
        )
        names = [*dict.fromkeys([*hinted, *sparse])]
        if has_events:
            self.taken.update(names)
            if names:
                self.guess.notes.append(
                    f"left out: {', '.join(names)}, because events say what items earned"
                )
            return
        self._set_rewards(names)
        if len(names) > 1 and not hinted:
            self.guess.ask(
                "",
                f"primary = {_quoted(names[1])}",
                f"which is the metric: {', '.join(names)}? The first is",
            )

    def _set_rewards(self, names: Sequence[str]) -> None:
        guess = self.guess
        if "reward" in guess.columns:
            guess.rewards = {guess.columns["reward"]: guess.columns["reward"]}
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
        page_columns = (
            [self.page]
            if self.lists is None
            else [
                c.name
                for c in log.columns.values()
                if c.may_be_key and c.name not in (self.page, self.item) and self.of_page(c.name)
            ]
        )
        pages = [
            (mine, theirs, share)
            for mine in page_columns
            for theirs in second.columns
            if (share := log.overlap(mine, second, theirs)) >= SHARED
        ]
        items = [
            (theirs, share)
            for theirs in second.columns
            if (share := log.overlap(self.item, second, theirs)) >= SHARED
        ]
        fits = [
            (log.pairs_in((mine, self.item), second, (theirs, item)), share, mine, theirs, item)
            for mine, theirs, share in pages
            for item, _ in items
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
        item_name = self.lists.columns["action"] if self.lists else self.item
        if fits and fits[0][0] > 0:
            shared, _, mine, theirs, item = fits[0]
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
            self.keys.append(keys)
            self.beside.append(second)
            table: dict[str, Any] = {"path": title}
            guess.scores.append(table)
            names = [column.name for column in second.columns.values()]
            if keys is None or keys.item is None:
                guess.notes.append(
                    f"{title}: no columns name both the pages and the items of the log"
                )
                guess.ask(
                    "scores",
                    'join = ["..."]',
                    f"which of {', '.join(names)} are the page and the item?",
                )
                continue
            table["join"] = keys.join
            used = {keys.page[1], keys.item[1]}
            numbers = [
                c.name
                for c in second.columns.values()
                if c.form in ("number", "whole")
                and c.name not in used
                and c.levels > 2
                and (c.form == "number" or {*words(c.name)} & {*SCORE})
                and not second.is_epoch(c)
            ]
            columns = {}
            for name in numbers:
                path = title if len(numbers) == 1 else ""
                target = self.target_name(
                    target_of(name, path, of_file=bool(path) and len(score_tables) > 1)
                )
                columns[target] = name
                self.numeric_scores[target] = f"scores{number}.{name}"
            table["columns"] = columns
            guess.notes.append(
                f"{title} joins by {', '.join(keys.join)}; scores: {', '.join(numbers) or 'none'}"
            )
            if keys.shared < ALL_LISTED and not self.unshown:
                guess.notes.append(
                    f"{title} scores candidates that the log does not list: they join the log"
                )

    def target_name(self, name: str) -> str:
        """Return a name that no other target has; names of roles are none."""
        name = f"{name}_ranker" if name in (*ROLES, "propensity", "") else name
        while name in self.numeric_scores:
            name += "_"
        return name

    @property
    def unshown(self) -> int:
        """Rows of candidates that were not shown."""
        return int(
            self.log.first(f"SELECT count(*) FROM log WHERE ({self.was_shown}) IS NOT TRUE")[0]
        )

    def policies(self, metadata: Mapping[bytes, bytes]) -> None:
        """Find today's scores among all columns of scores, by the order that they explain; the others are targets."""
        guess = self.guess
        if not self.item or not self.page or "propensity" in guess.columns:
            return _as_written(guess, metadata)
        stated = guess.columns.get("propensity_scores")
        if stated is not None and stated not in self.log.columns:
            raise LogError(f"the log has no column '{stated}' for propensity_scores")
        names = self._scores_in_log()
        for name in [stated, *names] if stated else names:
            self.numeric_scores[self.target_name(target_of(name))] = f"log.{name}"
        fits = self._fits()
        chosen = next((t for t, c in self.numeric_scores.items() if c == f"log.{stated}"), "")
        chosen = chosen or self._todays(fits)
        if chosen:
            self._set_logger(chosen, fits[chosen])
        self._set_targets(chosen)
        return _as_written(guess, metadata)

    def _scores_in_log(self) -> list[str]:
        """Return the columns of the log that may be scores of a ranker."""
        fits = [
            c.name
            for c in self.free()
            if (c.form == "number" or (c.form == "whole" and {*words(c.name)} & {*SCORE}))
            and not self.of_page(c.name)
            and c.levels > 2
        ]
        # Numbers that the item alone decides are features, unless they are called scores.
        return [
            name
            for name in fits
            if self._is_called_score(name) or self.by_item[name].constant < NEARLY
        ]

    @staticmethod
    def _is_called_score(name: str) -> bool:
        return bool({*words(name)} & {*SCORE})

    def _fits(self) -> dict[str, Fit]:
        """Return how each score explains today's order."""
        if not self.numeric_scores:
            return {}
        log = self.log
        value = {target: sql.name(f"s{i}") for i, target in enumerate(self.numeric_scores)}

        def numbers(table: str) -> str:
            return "".join(
                f", CAST({sql.name(column.partition('.')[2])} AS DOUBLE) AS {value[target]}"
                for target, column in self.numeric_scores.items()
                if column.partition(".")[0] == table
            )

        # Rankings in lists are found by the column that tables of scores call their pages by.
        by_keys = [keys.page[0] for keys in self.keys if keys] if self.lists else []
        page_key = [*by_keys, self.page][0]
        query = (
            f"SELECT {log.text(page_key)} AS g, {log.text(self.item)} AS i, "
            f"CAST({sql.name(self.place)} AS DOUBLE) AS p"
            f"{numbers('log')} FROM log WHERE {log.some_groups(self.page)}"
        )
        pages = f"WITH log_rows AS ({query}) SELECT * FROM log_rows"
        for second, keys in zip(self.beside, self.keys, strict=True):
            if keys is None or keys.item is None:
                continue
            group = second.text(keys.page[1]) if keys.page[0] == page_key else "NULL"
            pages += (
                f" FULL JOIN (SELECT {group} AS g, {second.text(keys.item[1])} AS i{numbers(second.table)} FROM "
                f"{second.table} WHERE {group} IN (SELECT g FROM log_rows)) {second.table}_rows USING (g, i)"
            )
        rows = sql.table(log.opened, pages)
        place = _floats(rows["p"])
        place[~(place >= 0)] = np.nan
        page = np.asarray(rows["g"].combine_chunks().dictionary_encode().indices)
        arranged = Pages(page, place)
        return {
            target: arranged.fit(_floats(rows[value[target].strip('"')]))
            for target in self.numeric_scores
        }

    def _todays(self, fits: Mapping[str, Fit]) -> str:
        """Return the scores that today's rankings follow; ask where two explain them alike, or none does."""
        guess = self.guess
        ordered = sorted(fits, key=lambda target: -fits[target].gain)
        names = ", ".join(self._column(target) for target in ordered)
        if not ordered or fits[ordered[0]].gain < TELLING:
            hinted = [target for target in ordered if {*words(self._column(target))} & {*OLD}]
            if hinted:
                return hinted[0]
            guess.notes.append(
                f"today's scores: no column explains the order of the shown items{': ' + names if names else ''}"
            )
            guess.ask(
                "columns",
                'propensity_scores = "..."',
                f"the scores of today's policy, by which pages were ranked ({names or 'no column of scores'})",
            )
            guess.ask(
                "columns",
                'propensity = "..."',
                "or the probability with which each shown item was placed",
            )
            return ""
        best = fits[ordered[0]].gain
        alike = [target for target in ordered if fits[target].gain > best - TELLING]
        hinted = [target for target in alike if {*words(self._column(target))} & {*OLD}]
        chosen = hinted[0] if hinted else alike[0]
        alternatives = [self._column(target) for target in alike if target != chosen]
        if alternatives and not hinted:
            guess.ask(
                "columns",
                f"propensity_scores = {_quoted(alternatives[0])}",
                f"which are today's scores, {names}? They explain the rankings alike",
            )
        return chosen

    def _column(self, target: str) -> str:
        return self.numeric_scores[target].partition(".")[2]

    def _set_logger(self, chosen: str, fit: Fit) -> None:
        guess = self.guess
        column = self._column(chosen)
        table = self.numeric_scores[chosen].partition(".")[0]
        if table == "log":
            guess.columns["propensity_scores"] = column
            self.taken.add(column)
        else:
            columns = guess.scores[int(table.removeprefix("scores"))]["columns"]
            columns["propensity"] = columns.pop(chosen)
        guess.notes.append(f"scores of today's policy: {column}")
        guess.logger = "top" if fit.is_sorted else "plackett-luce"
        guess.temperature = None if fit.is_sorted else fit.temperature
        how = "rankings follow its scores" if fit.is_sorted else "rankings vary around its scores"
        guess.notes.append(f"today's policy: {guess.logger}, because {how}")
        further = any(keys and keys.shared < ALL_LISTED for keys in self.keys)
        if guess.temperature and not (self.unshown or further):
            guess.notes.append(
                "every candidate was shown: if others could have been, add them (rows without a position, or a "
                "table of scores with --scores), or else the temperature is too high"
            )

    def _set_targets(self, chosen: str) -> None:
        """Name the targets; numbers of the log that nothing calls a score may be features, so that is asked."""
        guess = self.guess
        in_log = {
            t: self._column(t)
            for t, c in self.numeric_scores.items()
            if t != chosen and c.startswith("log.")
        }
        joined = [
            t for t, c in self.numeric_scores.items() if t != chosen and not c.startswith("log.")
        ]
        sure = {t: c for t, c in in_log.items() if self._is_called_score(c)}
        if not sure and len(in_log) == 1 and not joined:
            sure = in_log
        for target, column in sure.items():
            guess.columns[f"{target}_scores"] = column
            self.taken.add(column)
        guess.targets = [*sure, *joined]
        shown = (f"{t} ({c})" if (c := self._column(t)) != t else t for t in guess.targets)
        guess.notes.append(f"targets: {', '.join(shown) or 'none found'}")
        if guess.targets or (not chosen and not in_log):
            return
        if in_log:
            guess.ask(
                "",
                f"target = {sorted(in_log)}".replace("'", '"'),
                "which columns are scores of a new ranker?",
            )
            for target, column in in_log.items():
                guess.ask(
                    "columns",
                    f"{_quoted(target + '_scores')} = {_quoted(column)}",
                    f"if {column} is a score",
                )
        else:
            guess.ask(
                "",
                'target = ["..."]',
                "no column looks like the scores of a new policy; give a table of them with --scores",
            )

    def describe_requests(self) -> None:
        """Find what describes the request, and what describes an item."""
        guess, features = self.guess, []
        further = any(keys and keys.shared < ALL_LISTED for keys in self.keys)
        for column in self.free() if self.item else []:
            if column.form not in ("text", "whole", "number", "truth") or words(column.name)[
                -1:
            ] == ("id",):
                continue
            if column.form == "text" and column.levels > MOST_LEVELS or self.log.is_epoch(column):
                continue
            if (
                not self.by_page
                or self.by_page[column.name].constant >= 1
                and column.filled == self.log.rows
            ):
                guess.context.append(column.name)
            elif self.of_page(column.name):
                guess.notes.append(
                    f"left out: {column.name}, which some rows of a ranking lack and others have (fill it to use "
                    "it as context)"
                )
            elif (
                column.filled == self.log.rows
                and not (further and not self.unshown)
                and self.in_candidates(column)
            ):
                features.append(column.name)
        guess.segments = [
            name
            for name in guess.context
            if self.log.columns[name].form == "text"
            and 1 < self.log.columns[name].levels <= MOST_LEVELS
        ]
        guess.columns |= {f"z_{name.removeprefix('z_')}": name for name in features}
        for label, names in (
            ("context", guess.context),
            ("segments", guess.segments),
            ("features", features),
        ):
            if names:
                guess.notes.append(f"{label}: {', '.join(names)}")

    def in_candidates(self, column: Column) -> bool:
        """Whether a column has an entry for each candidate."""
        return self.lists is None or column.name in self.lists.by_candidate


def _as_written(guess: JobGuess, metadata: Mapping[bytes, bytes]) -> None:
    """Take what `simulate` or `plan` wrote into the file: the logger and the policies."""
    written = {
        key.decode().removeprefix("counterrank."): value.decode()
        for key, value in metadata.items()
        if key.startswith((b"counterrank.logger", b"counterrank.policy."))
    }
    if "logger" in written:
        guess.logger, guess.temperature = written["logger"], None
    names = guess.targets if guess.logger else ()
    guess.policies = {t: written[f"policy.{t}"] for t in names if f"policy.{t}" in written}


def _floats(column: pa.ChunkedArray) -> Any:
    return column.combine_chunks().to_numpy(zero_copy_only=False).astype(float)


def _quoted(name: str) -> str:
    import json

    return json.dumps(name, ensure_ascii=False)
