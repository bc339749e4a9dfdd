# Each target does all its own set-up. uv is used when present, otherwise venv + pip.
# The first that answers: pyenv's shims are there also for versions that are not switched on.
PYTHON ?= $(shell for one in python3.11 python3.12 python3.13 python3.14 python3; do \
  "$$one" -V >/dev/null 2>&1 && command -v "$$one" && break; done)
VENV := .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv)

.PHONY: setup demo check test lint types docs bench fuzz mutation guarantees audit dist versions lock clean

setup: $(VENV)/.complete

# The core and what the demo draws with; small and quick.
$(VENV)/.demo: pyproject.toml
	@$(MAKE) --no-print-directory venv
	@$(call install,-e .)
	@$(BIN)/counterrank warmup
	@touch $@

$(VENV)/.complete: pyproject.toml
	@$(MAKE) --no-print-directory venv
	@$(call install,-e '.[all]' --group dev --group docs)
	@touch $(VENV)/.demo $@

.PHONY: venv
ifdef UV
install = $(UV) pip install -q --python $(BIN)/python $(1)
venv:
	@test -x $(BIN)/python || $(UV) venv -q --python "$(PYTHON)" $(VENV)
else
install = $(BIN)/python -m pip install -q --disable-pip-version-check $(1)
# Dependency groups need pip 25.1.
venv:
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	@$(call install,'pip>=25.1')
endif

demo: $(VENV)/.demo
	@$(BIN)/counterrank demo --out out/demo

lint: setup
	$(BIN)/ruff check src tests benchmarks docs
	$(BIN)/ruff format --check src tests benchmarks docs
	$(BIN)/lint-imports
	$(BIN)/python -m benchmarks.weight
	$(BIN)/python -m benchmarks.names

types: setup
	$(BIN)/mypy

# Between two edits: all but what needs a browser, a cluster, a notebook or minutes of fitting.
check: lint types
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist loadfile --quick tests

# Clusters and the browser start slowly, so the suite runs in two processes, a file at a time, each
# with one thread of BLAS and OpenMP: more would wait for each other on two cores. The order of the
# files is that of tests/conftest.py.
test: setup browser lint types
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder

# Lines and branches that the quick tests reach: coverage.xml, and a table.
.PHONY: coverage
coverage: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist loadfile --quick \
	  --cov --cov-report=xml --cov-report=term tests

# Debian's chromium for the browser tests; where it cannot be installed the tests say so.
.PHONY: browser
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
	{ test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
	  (apt-get update -qq && apt-get install -y -qq chromium) >/dev/null 2>&1; } || \
	echo "no chromium here: browser tests need it (Debian: apt-get install chromium)"

docs: setup
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs site
	@echo "The site is in $(CURDIR)/site: open site/index.html in a browser, no server is needed."

bench: setup
	$(BIN)/python -m benchmarks

# Damaged files of every kind for ten minutes, then ordinary logs through everything; SECONDS=60 for one each.
# Last, the tests of properties with examples that no run has drawn before.
SECONDS ?= 600
fuzz: setup
	$(BIN)/python -m benchmarks.fuzz $(SECONDS)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.ordinary $(SECONDS)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --hypothesis-profile=anew $$(grep -rl "^@given" tests)

# Changes of single operators and numbers in the core formulas that no test notices; about an hour.
mutation: setup
	$(BIN)/python -m benchmarks.mutation

# Coverage, power and false alarms, measured anew: docs/evidence/appendix.md.
guarantees: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.guarantees 300

# Known vulnerabilities of what is installed; needs a network.
audit: setup
	$(BIN)/pip-audit --skip-editable

dist: setup
	rm -rf dist
	$(BIN)/python -m build -q

# Sdist and wheel in clean environments: each supported Python found here, lowest and newest dependencies.
versions: setup
	$(BIN)/python -m benchmarks.versions

# For `pip install -c requirements-dev.lock`.
freeze = $(if $(UV),$(UV) pip freeze --python $(BIN)/python,$(BIN)/python -m pip freeze)
lock: setup
	@{ echo "# Made by 'make lock': what the development environment holds."; \
	  $(freeze) --exclude-editable | grep -vi '^counterrank' | LC_ALL=C sort -f; } > requirements-dev.lock

clean:
	rm -rf $(VENV) dist build site out .mypy_cache .ruff_cache .pytest_cache .hypothesis
