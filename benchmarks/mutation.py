"""Mutation check of the core formulas: change one operator or number at a time; some test must
notice.

Run: python -m benchmarks.mutation [FILE ...] [--every N] [--seconds S]      (make mutation)

Kernels run as plain Python (no compiled code could be stale), each mutant in a forked process whose
import of the one module is replaced. Prints the survivors and exits with 1 when there are any that
are not known to be equal.
"""

import argparse
import ast
import contextlib
import copy
import importlib.abc
import importlib.machinery
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "counterrank"
#: Small exact cases, fast as plain Python; what they leave is tried on the slower tests that know a
#: file.
MOMENTS, BOUNDS = (
    "tests/estimators/weights/test_moments_exact.py",
    "tests/statistics/test_exact_bounds.py",
)
QUANTITY = "tests/statistics/test_quantity.py"
CONTRIBUTION, MASKED = "tests/estimators/test_contribution.py", "tests/estimators/test_masked.py"
COMPARISONS = "tests/evaluation/test_comparisons.py"
RULE = ("tests/estimators/auto/test_rule.py", "tests/estimators/auto/test_members.py")
AUTO = (
    *RULE,
    "tests/estimators/auto/test_auto.py",
    "tests/estimators/auto/test_two_phase.py",
)
PASS = (
    "tests/evaluation/test_pins.py",
    "tests/evaluation/test_trust.py",
    "tests/evaluation/test_run.py",
    "tests/statistics/test_sequential.py",
    "tests/propensity_models/test_propensities.py",
)
#: Each file and the tests that know its formulas.
FILES: dict[str, tuple[str, ...]] = {
    "estimators/weights/ratios.py": (
        "tests/estimators/weights/test_ordered_weights.py",
        MASKED,
        "tests/estimators/weights/test_kernels.py",
        "tests/estimators/exact/test_order.py",
        "tests/estimators/test_order_moments.py",
        "tests/estimators/weights/test_ratios.py",
        "tests/data/test_propensity_kinds.py",
        "tests/estimators/exact/test_without_replacement.py",
    ),
    "estimators/weights/moments.py": (
        MOMENTS,
        CONTRIBUTION,
        MASKED,
        "tests/estimators/weights/test_moments.py",
        "tests/statistics/test_standard_errors.py",
    ),
    "estimators/behavior/masks.py": (
        "tests/estimators/behavior/test_random_masks.py",
        "tests/estimators/behavior/test_masks.py",
    ),
    "estimators/behavior/objective.py": (
        "tests/estimators/behavior/test_mse.py",
        "tests/estimators/behavior/test_splitting.py",
    ),
    "estimators/behavior/growth.py": (
        "tests/estimators/behavior/test_splitting.py",
        "tests/estimators/behavior/test_tree.py",
    ),
    "estimators/behavior/forest.py": ("tests/estimators/behavior/test_tree.py",),
    "estimators/contribution.py": (
        "tests/estimators/test_aggregates.py",
        CONTRIBUTION,
        "tests/statistics/test_standard_errors.py",
    ),
    "estimators/masked.py": (
        MASKED,
        "tests/estimators/test_clip.py",
        "tests/data/test_propensity_kinds.py",
        "tests/estimators/behavior/test_masks.py",
        "tests/estimators/test_one_weight.py",
    ),
    "estimators/doubly_robust.py": (
        "tests/estimators/test_doubly_robust.py",
        "tests/models/test_linear_exact.py",
    ),
    "estimators/clip.py": ("tests/estimators/test_clip.py",),
    "statistics/columns.py": ("tests/statistics/test_columns.py", QUANTITY, COMPARISONS),
    "statistics/sums.py": (QUANTITY, "tests/statistics/test_standard_errors.py", MOMENTS),
    "statistics/quantity.py": (
        QUANTITY,
        BOUNDS,
        "tests/statistics/test_methods.py",
        "tests/statistics/test_multiplicity.py",
        "tests/statistics/test_sequential.py",
        "tests/metrics/test_deciding.py",
    ),
    "statistics/betting.py": (BOUNDS, "tests/learning/test_bounds.py"),
    "statistics/arms.py": ("tests/statistics/test_adjusted.py",),
    "estimators/weights/thresholds.py": (BOUNDS, "tests/evaluation/test_verdict_of_estimates.py"),
    "estimators/weights/diagnostics.py": ("tests/estimators/weights/test_diagnostics.py",),
    "evaluation/exploration.py": (
        "tests/estimators/weights/test_diagnostics.py",
        "tests/evaluation/test_planning.py",
        "tests/evaluation/test_trust.py",
    ),
    "evaluation/sensitivity.py": ("tests/evaluation/test_sensitivity.py",),
    "checks/base.py": ("tests/checks/test_counts.py", "tests/checks/test_diseases.py"),
    "checks/auditor.py": ("tests/checks/test_counts.py", "tests/checks/test_diseases.py"),
    "checks/propensities.py": ("tests/checks/test_counts.py", "tests/checks/test_diseases.py"),
    "checks/rows.py": ("tests/checks/test_diseases.py",),
    "checks/weights.py": (
        "tests/checks/test_counts.py",
        "tests/checks/test_groups.py",
        "tests/checks/test_diseases.py",
    ),
    "evaluation/arms.py": ("tests/evaluation/test_arms_exact.py", "tests/evaluation/test_arms.py"),
    "evaluation/verdict.py": (
        "tests/evaluation/test_verdict_of_estimates.py",
        "tests/evaluation/test_verdict.py",
    ),
    "evaluation/comparisons.py": (COMPARISONS, "tests/evaluation/test_segments.py", *PASS),
    "evaluation/solve.py": (COMPARISONS, "tests/estimators/test_lift_by_position.py", *PASS),
    "evaluation/sweep.py": (COMPARISONS, *PASS),
    "estimators/solution.py": (
        "tests/estimators/test_names.py",
        COMPARISONS,
        *RULE,
        "tests/propensity_models/test_propensities.py",
    ),
    "estimators/columns.py": (CONTRIBUTION, "tests/statistics/test_columns.py", *AUTO),
    "estimators/auto/rule.py": (*RULE, "tests/evaluation/test_pins.py"),
    "estimators/auto/solution.py": AUTO,
    "estimators/auto/members.py": AUTO,
    "estimators/auto/auto.py": AUTO,
    "models/clicks/model.py": ("tests/models/test_clicks_recursion.py",),
    "estimators/auto/nuisances.py": ("tests/estimators/auto/test_aim.py",),
    "estimators/crossfit.py": (
        "tests/estimators/test_crossfit.py",
        "tests/estimators/auto/test_amounts.py",
        "tests/estimators/auto/test_without_replacement.py",
    ),
    "models/base.py": ("tests/models/test_base.py",),
    "estimators/behavior/pairs.py": (
        "tests/estimators/behavior/test_pairs.py",
        "tests/estimators/behavior/test_blending.py",
        "tests/estimators/behavior/test_tails.py",
    ),
    "data/encoding.py": ("tests/data/test_encoding.py",),
    "common/boosting.py": ("tests/common/test_boosting.py",),
}
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.And: ast.Or, ast.Or: ast.And, ast.FloorDiv: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.RShift: ast.LShift,
}  # fmt: skip
#: Mutants that no test can kill because they mean the same: (file, text of the change, part of the
#: line).
EQUAL: tuple[tuple[str, str, str], ...] = (
    ("estimators/weights/moments.py", "256", "BLOCK = "),
    (
        "estimators/weights/moments.py",
        "Lt",
        "if shortest < length:",
    ),  # a way around a loop that has nothing to do
    ("estimators/weights/moments.py", "1", ".reshape(-1)"),
    (
        "estimators/weights/moments.py",
        "3",
        "= np.empty(length * BLOCK), np.empty((3, BLOCK))",
    ),  # room that nothing uses
    (
        "estimators/weights/moments.py",
        "3",
        "np.zeros((3, length, len(kernels.POSITION_SUMS)))",
    ),  # one more row of zeros
    ("estimators/weights/moments.py", "8", "_ROUNDING = "),
    ("estimators/weights/moments.py", "1024", "_GRAM_ROWS = "),
    ("estimators/weights/moments.py", "Mult", "_ROUNDING = "),
    ("estimators/weights/moments.py", "LtE", "np.abs(difference) <= noise"),
    ("estimators/weights/moments.py", "3", "dtype=np.int64), np.zeros((3, kernels.BINS, 2))"),
    ("estimators/weights/moments.py", "3", "totals = np.empty((3, n))"),
    ("estimators/behavior/objective.py", "1", "reshape(1, 1, -1)"),
    (
        "estimators/behavior/objective.py",
        "2",
        "2 + 2 * self.comparisons",
    ),  # channels that stay zero
    (
        "estimators/behavior/objective.py",
        "0.0",
        "if self.sample is None else 0.0",
    ),  # replicates have no noise
    ("estimators/behavior/objective.py", "1", "get_close_matches("),
    ("estimators/weights/ratios.py", "512", "_ORDER_BLOCK = "),
    ("estimators/weights/ratios.py", "And", "assert isinstance("),  # for the type checker
    ("estimators/masked.py", "0", "take(slice(0, 20))"),  # which rows are looked at first
    ("estimators/masked.py", "20", "take(slice(0, 20))"),
    ("estimators/masked.py", "1", "reshape(len(array), -1)"),
    ("estimators/masked.py", "1", ".reshape(-1)"),
    ("estimators/contribution.py", "True", "strict=True"),  # lists of one length by construction
    ("estimators/auto/auto.py", "0.0", "np.where(supported, below, 0.0)"),  # zero weight
    ("estimators/auto/auto.py", "700.0", "700.0"),  # a limit short of overflow
    # Settings: a test that pins them would say nothing.
    ("estimators/crossfit.py", "5", "folds: int = 5"),
    ("estimators/crossfit.py", "10", "often: int = 10"),
    ("estimators/crossfit.py", "100", "longest: int = 100"),
    ("estimators/crossfit.py", "32768", "_rows: int = 32_768"),
    ("estimators/crossfit.py", "200000", "draws_together: int = 200_000"),
    ("estimators/crossfit.py", "1.0", "rate: float = 1.0"),
    ("estimators/crossfit.py", "0", "return self.models[0].folds"),  # all models have as many
    ("estimators/crossfit.py", "1", "// max("),  # of no rows nothing is drawn
    ("data/encoding.py", "Gt", "sd = np.where(spread > 1e-12"),  # a tie to the last digit
    ("data/encoding.py", "LtE", "flat = spread <= 1e-9"),
    ("data/encoding.py", "1", "np.where(gaps[:, j], -1"),  # any code without an indicator
    # x / golden = x + x golden, which has the same fraction.
    ("data/encoding.py", "Mult", "own = np.floor((own * GOLDEN)"),
    ("data/encoding.py", "Gt", "if (away**3).mean() >"),  # a tie
    ("models/base.py", "1", "ALL = -1"),  # any number that is no fold
    # The general way gives the same.
    ("models/base.py", "GtE", "given.min(initial=0) >= 0"),
    ("models/base.py", "0", "given.min(initial=0) >= 0"),
    ("estimators/auto/rule.py", "True", "strict=True"),  # a value and an error for each position
    (
        "models/clicks/model.py",
        "LtE",
        "part = rankings if rankings.m <= _PART",
    ),  # a part of everything is everything
    ("statistics/betting.py", "60", "_BET_HALVINGS = 60"),
    ("statistics/quantity.py", "1.0", "np.clip(np.nan_to_num(shares), -1.0, 1.0)"),  # rounding only
    ("statistics/quantity.py", "44", "_HALVINGS = 44"),  # one more halving, below rounding
    # The width is flat in it: a wrong guess of the final size costs as much.
    ("statistics/quantity.py", "Add", "return n * (spent + math.log(spent + 1))"),
    (
        "statistics/quantity.py",
        "Lt",
        "< check_level(level)",
    ),  # a tie moves the other end by nothing
    (
        "estimators/contribution.py",
        "True",
        "hermitian=True",
    ),  # a covariance is symmetric: both ways give its inverse
    # Ties: a computed number that meets a line to the last digit.
    ("evaluation/verdict.py", "Gt", "tail_index(e.moments) > THRESHOLDS"),
    ("evaluation/verdict.py", "Gt", "if test.p_value * len(tests) > SIGNIFICANT"),
    ("evaluation/verdict.py", "LtE", "if value <= SIGNIFICANT]"),
    ("evaluation/verdict.py", "Lt", "1 / 3 < factor < 3"),
    ("evaluation/verdict.py", "True", "strict=True"),  # lists of one length by construction
    ("evaluation/comparisons.py", "Lt", "stderr_of_difference(job, other)) < SIGNIFICANT"),
    ("evaluation/comparisons.py", "LtE", "calm = tail_index("),
    ("evaluation/comparisons.py", "Gt", "mean_weight_test(estimate.moments).p_value > SIGNIFICANT"),
    ("evaluation/comparisons.py", "0", "default=0)"),  # of no estimates there is no path
    # The line before leaves factors of three and more, or a third and less.
    ("evaluation/verdict.py", "Gt", '(factor, "small") if factor > 1'),
    ("evaluation/verdict.py", "1", '(factor, "small") if factor > 1'),
    # Both ways say the same of ten and of a hundred.
    ("evaluation/verdict.py", "Lt", 'return f"{factor:.2g}" if factor < 10'),
    ("evaluation/verdict.py", "Lt", "if whole < 100:"),
    ("evaluation/verdict.py", "100", "if whole < 100:"),
)


class Site(ast.NodeVisitor):
    """Collects the nodes that can be changed; annotations, texts and messages are left alone."""

    def __init__(self) -> None:
        self.found: list[tuple[ast.AST, str]] = []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for statement in node.body:
            self.visit(statement)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for statement in node.body:
            self.visit(statement)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        """Leave messages alone."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave texts alone."""

    def generic_visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in SWAPS:
            self.found.append((node, type(node.op).__name__))
        elif isinstance(node, ast.BoolOp):
            self.found.append((node, type(node.op).__name__))
        elif isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
            self.found.append((node, type(node.ops[0]).__name__))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not | ast.Invert):
            self.found.append((node, type(node.op).__name__))
        elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            self.found.append((node, repr(node.value)))
        super().generic_visit(node)


def change(node: ast.AST) -> None:
    """Turn a node into its mutant, in place."""
    if isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp):
        node.op = SWAPS[type(node.op)]()  # type: ignore[assignment]
    elif isinstance(node, ast.Compare):
        node.ops[0] = SWAPS[type(node.ops[0])]()  # type: ignore[assignment]
    elif isinstance(node, ast.UnaryOp):
        node.op = ast.UAdd() if not isinstance(node.op, ast.Not) else node.op
        if isinstance(node.op, ast.Not):
            node.operand = ast.UnaryOp(ast.Not(), node.operand)
    elif isinstance(node, ast.Constant):
        value = node.value
        node.value = (not value) if isinstance(value, bool) else value + 1


def mutants(text: str) -> Iterator[tuple[int, str, ast.Module]]:
    """Yield line, what was changed, and the changed module."""
    tree = ast.parse(text)
    site = Site()
    site.visit(tree)
    for i in range(len(site.found)):
        mutated = copy.deepcopy(tree)
        twin = Site()
        twin.visit(mutated)
        node, what = twin.found[i]
        change(node)
        yield getattr(node, "lineno", 0), what, ast.fix_missing_locations(mutated)


class Replacement(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from a changed tree."""

    def __init__(self, name: str, path: Path, tree: ast.Module) -> None:
        self.name, self.path, self.tree = name, path, tree

    def find_spec(
        self, name: str, path: object, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self.name:
            return None
        return importlib.machinery.ModuleSpec(name, self, origin=str(self.path))

    def exec_module(self, module: ModuleType) -> None:
        module.__file__ = str(self.path)
        exec(compile(self.tree, str(self.path), "exec"), module.__dict__)


def outcome(name: str, path: Path, tree: ast.Module | None, tests: list[str], seconds: int) -> str:
    """Run the tests on a mutant (or on the original) in a forked process: "passed", "failed" or
    "late".
    """
    child = os.fork()
    if child == 0:
        signal.alarm(seconds)
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
        for loaded in [m for m in sys.modules if m.partition(".")[0] == "counterrank"]:
            del sys.modules[loaded]
        if tree is not None:
            sys.meta_path.insert(0, Replacement(name, path, tree))
        import pytest

        code = 3
        with contextlib.suppress(BaseException):
            quiet = [
                "-x",
                "-q",
                "--quick",
                "-W",
                "ignore",
                "--no-header",
                "-p",
                "no:randomly",
                "-p",
                "no:xdist",
            ]
            code = int(pytest.main([*quiet, *tests]))
        os._exit(code)
    _, status = os.waitpid(child, 0)
    return {0: "passed", -signal.SIGALRM: "late"}.get(os.waitstatus_to_exitcode(status), "failed")


def known_equal(file: str, what: str, line: str) -> bool:
    return any(file == f and what == w and part in line for f, w, part in EQUAL)


def check(file: str, *, every: int, seconds: int) -> tuple[Counter[str], list[str]]:
    """Return how many mutants of a file were killed, late, equal or survived, and the survivors.

    A mutant that is late may never end, which is noticed, or the machine is busy: give it more
    seconds.
    """
    path = SOURCE / file
    text = path.read_text()
    lines = text.splitlines()
    name = "counterrank." + file.removesuffix(".py").replace("/", ".")
    tests = [str(ROOT / test) for test in FILES[file] if (ROOT / test).exists()]
    if outcome(name, path, None, tests, 10 * seconds) != "passed":
        raise SystemExit(f"the tests of {file} fail without any mutation: {' '.join(tests)}")
    counts: Counter[str] = Counter()
    left = []
    for i, (line, what, tree) in enumerate(mutants(text)):
        if i % every:
            continue
        source = lines[line - 1].strip()
        found = outcome(name, path, tree, tests, seconds)
        if found == "passed":
            found = "equal" if known_equal(file, what, source) else "survived"
        counts[found] += 1
        if found in ("survived", "late"):
            print(f"  {found}  {file}:{line}: {what} changed in `{source}`", flush=True)
        if found == "survived":
            left.append(f"{file}:{line}")
    return counts, left


def main() -> int:
    """Check the files given, or all; print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", default=list(FILES))
    parser.add_argument("--every", type=int, default=1, help="try every n-th mutant only")
    parser.add_argument(
        "--seconds", type=int, default=90, help="a mutant that takes longer is late"
    )
    options = parser.parse_args()
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    os.chdir(ROOT)
    import hypothesis  # noqa: F401 - loaded once, shared by the forks
    import numba  # noqa: F401
    import pyarrow  # noqa: F401
    import pytest  # noqa: F401
    import scipy.stats  # noqa: F401

    survivors = []
    for file in options.files:
        start = time.monotonic()
        counts, left = check(file, every=options.every, seconds=options.seconds)
        survivors += left
        parts = ", ".join(
            f"{counts[kind]} {kind}" for kind in ("failed", "late", "equal", "survived")
        )
        print(
            f"{file}: {counts.total()} mutants: {parts} ({time.monotonic() - start:.0f} s)",
            flush=True,
        )
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
