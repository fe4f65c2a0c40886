# Targets: help, repro, demo, demo-weights, blender, study, experiments, check-data, test, lint, bench.
PYTHON ?= python3
BIN := .venv/bin
# DVC runs the stages with the environment's python
export PATH := $(CURDIR)/$(BIN):$(PATH)
# without bytecode files, every process would compile torch's modules again, for 4 to 10 s
unexport PYTHONDONTWRITEBYTECODE
# Keep only the variables that say where packages come from (SOURCES). Others may install elsewhere (PIP_TARGET),
# hide modules (PYTHONPATH) or stop Python (PYTHONHOME).
unexport PYTHONHOME PYTHONPATH PYTHONSAFEPATH PYTHONWARNINGS PYTHONINSPECT PYTHONSTARTUP
SOURCES := %INDEX %INDEX_URL UV_INDEX_% %CACHE_DIR %NO_CACHE %FIND_LINKS %CONFIG_FILE %KEYRING_PROVIDER %TIMEOUT \
	%RETRIES PIP_CERT PIP_CLIENT_CERT PIP_PROXY PIP_TRUSTED_HOST UV_NATIVE_TLS UV_SYSTEM_CERTS UV_INSECURE_HOST \
	UV_OFFLINE UV_LINK_MODE UV_CONCURRENT_%
unexport $(filter-out $(SOURCES),$(filter PIP_% UV_%,$(.VARIABLES)))
# Values of `make NAME=…` reach the recipes through the environment, so that the shell does not execute them.
# Only values of the command line count, because WSL sets NAME in the environment.
given = $(if $(filter command,$(origin $(1))),$(value $(1)))
override NAME := $(call given,NAME)
override DATASET := $(call given,DATASET)
override SEEDS := $(call given,SEEDS)
override TESTS := $(call given,TESTS)
export NAME DATASET SEEDS TESTS
# DVC needs a user name and a home. A user id without a name has neither (`docker run --user 12345`).
ifeq ($(LOGNAME)$(USER)$(LNAME)$(USERNAME),)
export LOGNAME := $(firstword $(shell id -un 2>/dev/null || id -u))
endif
ifeq ($(HOME),)
export HOME := $(CURDIR)/.scratch/home
endif

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

repro: .venv/ready ## the main job: render, extract, train, decode, score, report; cached
	dvc repro
	@python -m stages.report --show

demo: .venv/ready ## open a page in your browser that captions new scenes or your own two images
	@python -m commands.demo

demo-weights: .venv/ready ## train the weights of `make demo` again (hours; overwrites demo/)
	@demo/train

blender: .blender/ready ## install Blender (1 GB), which draws scenes of tabletop.look blender

study: .venv/ready ## reproduce a table of a paper: make study NAME=scorer-table-6 DATASET=tabletop [SEEDS="1 2 3"]
	$(if $(NAME),,$(error name a study: make study NAME=scorer-table-6 DATASET=tabletop))
	$(if $(DATASET),,$(error name a dataset: make study NAME=$(NAME) DATASET=tabletop))
	@set -f; python -m commands.study --name "$$NAME" --dataset "$$DATASET" $${SEEDS:+--seeds $$SEEDS}

experiments: .venv/ready ## a table of experiments: their scores, and the settings that differ
	@dvc exp show --only-changed --drop '.*/\w+(\.\w+)*$$|\w+\.yaml$$|pipeline$$|stages$$'

check-data: .venv/ready ## check that a real dataset's folder is complete: make check-data DATASET=spot_the_diff
	$(if $(DATASET),,$(error name a dataset: make check-data DATASET=spot_the_diff))
	@python -m commands.check_data --dataset "$$DATASET"

test: .venv/ready ## run the tests on all cores; a part of them: make test TESTS="-m 'not slow' tests/models"
	@printf '%s\n' "--dist worksteal $$TESTS" | OMP_NUM_THREADS=1 xargs python -m pytest --numprocesses auto

lint: .venv/ready ## check style, format, prose and types
	ruff check .
	ruff format --check .
	python -m tests.prose
	mypy

bench: .venv/ready ## run the benchmarks against reference implementations
	python -m benchmarks

# The environment has exact versions with hashes. uv, which installs them, is one of them; so is setuptools, which
# builds packages without a wheel (without --no-build-isolation, uv would fetch another version, unchecked).
# uv does not read pip's index setting, so the recipe passes it on.
.venv/ready: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "error: Python 3.11 or later is needed; make PYTHON=/path/to/python3" >&2; exit 2; }
	@test ! -L .venv || { echo "error: .venv is a link, and its target would be emptied; remove it" >&2; exit 2; }
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

# Blender's Python module needs another NumPy than the lab, and Python 3.11; uv fetches Python where it is missing
.blender/ready: blender.lock .venv/ready
	@test ! -L .blender || { echo "error: .blender is a link, and its target would be emptied; remove it" >&2; exit 2; }
	$(BIN)/uv venv --quiet --clear --python 3.11 .blender
	@index=$${UV_DEFAULT_INDEX:-$${UV_INDEX_URL:-$${PIP_INDEX_URL:-$$($(BIN)/python -m pip config get global.index-url 2>/dev/null)}}}; \
		test -z "$$index" || export UV_DEFAULT_INDEX="$$index"; set -x; \
		$(BIN)/uv pip install --quiet --python .blender/bin/python --require-hashes -r blender.lock
	touch $@

# pin the newest versions; run it after a change of pyproject.toml
lock:
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras --group dev --generate-hashes \
		--no-emit-index-url pyproject.toml -o requirements.lock
	echo 'bpy==4.5.15' | $(BIN)/uv pip compile --quiet --python-version 3.11 --generate-hashes \
		--no-emit-index-url - -o blender.lock

.PHONY: help repro demo demo-weights blender study experiments check-data test lint bench lock
