# Targets: help, repro, demo, demo-weights, study, experiments, check-data, test, lint, bench.
PYTHON ?= python3
BIN := .venv/bin
# DVC runs the stages with the environment's python
export PATH := $(CURDIR)/$(BIN):$(PATH)
# else every process compiles torch anew, 4 to 10 s, where the shell forbids Python to keep its bytecode
unexport PYTHONDONTWRITEBYTECODE
# Python, pip and uv run with the environment's settings of where packages come from alone: others, left over from
# other work, install elsewhere (PIP_TARGET), hide modules (PYTHONPATH) or end Python at once (PYTHONHOME)
unexport PYTHONHOME PYTHONPATH PYTHONSAFEPATH PYTHONWARNINGS PYTHONINSPECT PYTHONSTARTUP
SOURCES := %INDEX %INDEX_URL UV_INDEX_% %CACHE_DIR %NO_CACHE %FIND_LINKS %CONFIG_FILE %KEYRING_PROVIDER %TIMEOUT \
	%RETRIES PIP_CERT PIP_CLIENT_CERT PIP_PROXY PIP_TRUSTED_HOST UV_NATIVE_TLS UV_SYSTEM_CERTS UV_INSECURE_HOST \
	UV_OFFLINE UV_LINK_MODE UV_CONCURRENT_%
unexport $(filter-out $(SOURCES),$(filter PIP_% UV_%,$(.VARIABLES)))
# What is set at `make NAME=…` reaches the recipes as it is, in the environment: in their text it would be commands.
# A variable of the environment alone does not count: WSL sets NAME.
given = $(if $(filter command,$(origin $(1))),$(value $(1)))
override NAME := $(call given,NAME)
override DATASET := $(call given,DATASET)
override SEEDS := $(call given,SEEDS)
override TESTS := $(call given,TESTS)
export NAME DATASET SEEDS TESTS
# DVC asks for the user's name and home, which a number without a name has not (`docker run --user 12345`)
ifeq ($(LOGNAME)$(USER)$(LNAME)$(USERNAME),)
export LOGNAME := $(firstword $(shell id -un 2>/dev/null || id -u))
endif
ifeq ($(HOME),)
export HOME := $(CURDIR)/.scratch/home
endif

help: ## say what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

repro: .venv/ready ## the main job: render, extract, train, decode, score, report; cached
	@python -m commands.check_lock
	dvc repro
	@python -m commands.check_lock
	@python -m stages.report --show

demo: .venv/ready ## a page in your browser: new scenes, or your two pictures, captioned; no training
	@python -m commands.demo

demo-weights: .venv/ready ## train and pack anew what `make demo` shows, for hours; overwrites demo/
	@demo/train

study: .venv/ready ## a paper's table: make study NAME=scorer-table-6 DATASET=tabletop [SEEDS="1 2 3"]
	$(if $(NAME),,$(error name a study: make study NAME=scorer-table-6 DATASET=tabletop))
	$(if $(DATASET),,$(error name a dataset: make study NAME=$(NAME) DATASET=tabletop))
	@set -f; python -m commands.study --name "$$NAME" --dataset "$$DATASET" $${SEEDS:+--seeds $$SEEDS}

experiments: .venv/ready ## the table of `dvc exp run`: scores, and the settings that differ
	@dvc exp show --only-changed --drop '.*/\w+(\.\w+)*$$|\w+\.yaml$$|pipeline$$|stages$$'

check-data: .venv/ready ## is a real dataset's folder complete? make check-data DATASET=spot_the_diff
	$(if $(DATASET),,$(error name a dataset: make check-data DATASET=spot_the_diff))
	@python -m commands.check_data --dataset "$$DATASET"

test: .venv/ready ## the test suite, on all cores; some of it: make test TESTS="-m 'not slow' tests/models"
	@printf '%s\n' "--dist worksteal $$TESTS" | OMP_NUM_THREADS=1 xargs python -m pytest --numprocesses auto

lint: .venv/ready ## check style, format, prose and types
	ruff check .
	ruff format --check .
	python -m tests.prose
	mypy

bench: .venv/ready ## the benchmarks, side by side with reference implementations
	python -m benchmarks

# The environment: exact pins with hashes; uv installs them in seconds, and is itself one of them. So is setuptools,
# which builds what has no wheel: without --no-build-isolation uv would fetch the newest one, and check no hash.
# uv does not read pip's index.
.venv/ready: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "error: Python 3.11 or later is needed; make PYTHON=/path/to/python3" >&2; exit 2; }
	@test ! -L .venv || { echo "error: .venv is a link, and what it leads to would be emptied; remove it" >&2; exit 2; }
	@case "$$(pwd)" in *:*) echo "error: there is a colon in $$(pwd), which PATH cannot hold; rename that folder" >&2; \
		exit 2;; esac
	$(PYTHON) -m venv --clear .venv
	sed -n -e '/^uv==/,/# via/p' -e '/^setuptools==/,/# via/p' requirements.lock > .venv/first.lock
	PIP_USER=0 $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r .venv/first.lock
	@index=$${UV_DEFAULT_INDEX:-$${UV_INDEX_URL:-$${PIP_INDEX_URL:-$$($(BIN)/python -m pip config get global.index-url 2>/dev/null)}}}; \
		test -z "$$index" || export UV_DEFAULT_INDEX="$$index"; set -x; \
		$(BIN)/uv pip install --quiet --python $(BIN)/python --no-build-isolation --require-hashes -r requirements.lock
	@test -e .git || git rev-parse --git-dir >/dev/null 2>&1 || $(BIN)/dvc config --local core.no_scm true
	touch $@

# after editing pyproject.toml: pin the newest versions again
lock:
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras --group dev --generate-hashes \
		--no-emit-index-url pyproject.toml -o requirements.lock

.PHONY: help repro demo demo-weights study experiments check-data test lint bench lock
