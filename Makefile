# Every target sets up what it needs in .venv, once, and again when pyproject.toml changes.
# On a fresh machine Python 3.11 or later and make are enough; `make PYTHON=/path/to/python …` picks another one.

VENV := .venv
RUN := $(VENV)/bin/python
PIP := $(RUN) -m pip install --quiet --quiet --disable-pip-version-check
PYTHON ?=
WORKERS ?= 2
ENGINE ?= columnar
COUNT ?= 100000
SECONDS ?= 60
SEED ?= 0
KERNELS := $(RUN) -m tidelog.compiled.build  # does nothing where they are built and have not changed

.PHONY: help install kernels demo test lint types layers pytest test-slow torture fuzz bench dist docs format clean

help:
	@echo 'make demo       a company changes: load, derive, changes and their effect, a query'
	@echo '                ENGINE=spark: the smallest pipeline, on Spark, with Java from PyPI if there is none'
	@echo 'make test       style, types, layers, tests and the commands in the documentation'
	@echo 'make test-slow  slow tests, more random programs, every address checked; at most 75 minutes'
	@echo 'make torture    random transactions in every way, compared with evaluation from scratch'
	@echo '                COUNT=100000 SEED=0 WORKERS=2: how many, from which seed on, in how many processes'
	@echo 'make fuzz       look for inputs that crash; SECONDS=60 says how long, SEED=0 which'
	@echo 'make bench      tidelog and its peers, in under a minute'
	@echo 'make docs       renew the generated parts of docs/ and run every example in them'
	@echo 'make format     format the code'
	@echo 'make install    everything, all extras, into $(VENV)'
	@echo 'make kernels    compile the kernels, if they have changed'
	@echo 'make dist       a source distribution and a wheel, in dist/'

# ---- set-up: a stamp in .venv for every set of extras

$(VENV)/.created:
	@set -eu; \
	if ! $(RUN) -m pip --version >/dev/null 2>&1; then \
	    found=; \
	    for candidate in $(PYTHON) python3.13 python3.12 python3.11 python3 python; do \
	        if "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
	            >/dev/null 2>&1; then found=$$candidate; break; fi; \
	    done; \
	    if [ -z "$$found" ]; then \
	        echo 'tidelog needs Python 3.11 or later with its venv module, and found none.' >&2; \
	        echo 'If it is installed elsewhere: make PYTHON=/path/to/python3 …' >&2; \
	        exit 1; \
	    fi; \
	    echo "setting up $(VENV) with $$("$$found" --version)"; \
	    "$$found" -m venv $(VENV); \
	fi
	@touch $@

$(VENV)/.installed-demo-columnar: EXTRAS := rdf,build
$(VENV)/.installed-demo-spark: EXTRAS := rdf,spark,build
$(VENV)/.installed-test: EXTRAS := rdf,repl,bench,dev,spark,publish
$(VENV)/.installed-all: EXTRAS := rdf,repl,bench,dev,spark,publish,web

$(VENV)/.installed-%: $(VENV)/.created pyproject.toml
	@[ -n '$(EXTRAS)' ] || { echo 'there is no engine $(ENGINE): ENGINE=columnar or ENGINE=spark' >&2; exit 1; }
	@echo 'installing tidelog[$(EXTRAS)] into $(VENV) …'
	@$(PIP) --editable '.[$(EXTRAS)]'
	@[ -n "$$CC" ] || command -v cc >/dev/null || command -v gcc >/dev/null || command -v clang >/dev/null || { \
	    echo 'there is no C compiler to link the kernels with: installing the one in the package ziglang …'; \
	    $(PIP) 'ziglang>=0.13,<0.16'; }
	@$(KERNELS)
	@$(RUN) -m compileall -q src  # saves each start 0.3 s where PYTHONDONTWRITEBYTECODE is set
	@touch $@

install: $(VENV)/.installed-all

kernels: $(VENV)/.installed-test
	@$(KERNELS)

# ---- what users see

DEMO_columnar := examples/demo.sh
DEMO_spark := examples/spark/demo.sh

demo: $(VENV)/.installed-demo-$(ENGINE)
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" sh $(DEMO_$(ENGINE))

bench: $(VENV)/.installed-test
	$(RUN) -m benchmarks materialise --quick

# ---- what must hold

test: lint types layers pytest

lint: $(VENV)/.installed-test
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .

types: $(VENV)/.installed-test
	$(RUN) -m mypy

layers: $(VENV)/.installed-test
	$(VENV)/bin/lint-imports --no-logo

pytest: kernels
	$(RUN) -m pytest -q -n $(WORKERS) --dist loadgroup -m 'not slow'

# What `make test` leaves out: see the budget in CONTRIBUTING.md. Tests that are neither slow nor random are not run again.
test-slow: SLOWLY := $(RUN) -m pytest -q -n $(WORKERS) --dist loadgroup --durations 20
test-slow: kernels
	@echo 'part 1 of 2: slow tests, and random ones with five times as many examples'
	HYPOTHESIS_PROFILE=slow $(SLOWLY) -m 'slow or hypothesis'
	@echo 'part 2 of 2: kernels that check every address'
	@TIDELOG_DEBUG=1 $(KERNELS)
	TIDELOG_DEBUG=1 $(SLOWLY) -m 'not slow' tests/engine tests/test_corpus.py tests/maintenance tests/changes

torture: kernels
	$(RUN) -m tests.torture --count $(COUNT) --seed $(SEED) --workers $(WORKERS)

fuzz: kernels
	$(RUN) -m tests.fuzz --seconds $(SECONDS) --seed $(SEED)

# The dates of files in the distributions are that of the last commit: the same sources give the same files.
dist: $(VENV)/.installed-test
	rm -rf dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(RUN) -m build --outdir dist
	$(RUN) -m auditwheel show dist/*.whl

docs: $(VENV)/.installed-test
	$(RUN) docs/renew.py --spark
	$(RUN) -m pytest -q tests/docs

format: $(VENV)/.installed-test
	$(RUN) -m ruff check --fix-only .
	$(RUN) -m ruff format .

clean:
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -r {} +
