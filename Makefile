# Every target works on a fresh machine: the virtual environment is made when it is missing.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
OUT    ?= runs/demo
# Python keeps what it compiled: without, every process compiles torch anew, seconds of work each time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test coverage lint bench mutants soak cluster-demo docs format clean

demo: $(VENV)/.core   ## the whole method on the data inside the package, with a report
	$(BIN)/nesbs demo --out $(OUT)

test: $(VENV)/.dev    ## the default tests
	$(BIN)/python -m pytest -n auto --dist worksteal

coverage: $(VENV)/.dev ## the default tests with coverage, which must reach 90 %: a third more time
	$(BIN)/python -m pytest -n auto --dist worksteal --cov --cov-report=term --cov-fail-under=90

lint: $(VENV)/.dev    ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.core  ## speed, as ratios against a plain reference in the same run
	$(BIN)/python -m benchmarks

mutants: $(VENV)/.dev ## change the core in one place at a time, count how many changes the tests notice; resumes
	$(BIN)/python -m mutants

soak: $(VENV)/.core   ## faults by the hundred: kills, bad inputs, a full disk; the record is results/soak/soak.json
	$(BIN)/python -m soak

cluster-demo: $(VENV)/.dev ## two Ray nodes on this machine, one killed half-way: the same table as without Ray
	$(BIN)/python -m benchmarks.cluster

docs: $(VENV)/.docs   ## the documentation as a site in site/, checked strictly, without the network
	NO_MKDOCS_2_WARNING=true $(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .coverage site

$(VENV)/bin/python:  # with a recent pip, which chooses packages in half the time of the one that Python brings
	$(PYTHON) -m venv $(VENV)
	$@ -m pip install --quiet --no-compile --disable-pip-version-check --upgrade pip

$(VENV)/.core: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt -e .
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@ $(VENV)/.core $(VENV)/.docs

$(VENV)/.docs: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt -e '.[docs]'
	touch $@ $(VENV)/.core
