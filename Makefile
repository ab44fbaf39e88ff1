# metaquorum: everything a user or a developer does starts here. `make help` lists it.
#
# The environment lives in .venv and holds exactly what requirements/lock.txt names, by hash.
# It is installed once; afterwards no target but `lock` needs a network.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

OLDEST_PYTHON := 3.11
PYTHON ?= $(shell for python in python3.13 python3.12 python3.11 python3; do \
	"$$python" -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo "$$python" && break; done)

VENV := .venv
BIN := $(VENV)/bin
LOCK := requirements/lock.txt
SPARK_LOCK := requirements/spark.txt
RUN_LOCK := requirements/run.txt
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
# What is compiled is kept, as it is for a package that is installed, but in $(VENV) and not in the
# tree: else every node would compile the whole of it when it starts, before it can vote.
KEPT := PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX=$(CURDIR)/$(VENV)/bytecode
PYTHON_M := $(KEPT) $(BIN)/python -m
PYTEST := $(PYTHON_M) pytest
# Three processes more than there are cores, because many tests wait for processes that they started;
# tests/conftest.py says which tests stay in one of them, and which begin.
WORKERS ?= $(shell "$(BIN)/python" -c 'import os; print(min(9, len(os.sched_getaffinity(0)) + 3))')
SPREAD = -n $(WORKERS) --dist loadfile --no-loadscope-reorder
# The tests need no development mode of Python: pytest's filter "error" (pyproject.toml) reports
# unclosed files and coroutines that nobody awaits, and tests/conftest.py refuses calls of a loop from
# other threads. What is left of that mode, the stack of each new task, costs a third on sockets.
CODE := $(wildcard quorum statemachine controller broker admin lag chaos tests bench hatch_build.py)

# The same modules as machine code (hatch_build.py), in a folder of their own: the tree stays as it
# is, and what is run or tested from it runs as it is written. `-P` and this path choose the folder.
COMPILED := .compiled
SOURCES := $(shell find quorum statemachine controller broker admin lag chaos -name '*.py')
COMPILED_M := PYTHONSAFEPATH=1 PYTHONPATH=$(CURDIR)/$(COMPILED):$(CURDIR) $(PYTHON_M)
# Benchmarks measure what is compiled; `make bench-commits INTERPRETED=1` what is not.
ifdef INTERPRETED
MEASURED := $(VENV)/installed
MEASURE_M := $(PYTHON_M)
else
MEASURED := $(COMPILED)/installed
MEASURE_M := $(COMPILED_M)
endif

# Passed on to the program that a target starts: make run ARGS=--once, make test ARGS="-k election"
ARGS ?=

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: $(VENV)/installed $(if $(shell command -v java),$(VENV)/spark) ## start a cluster on this machine and show a reassignment (ARGS=--once: then stop; KAFKA=4.3.1: with its brokers; SECURE=1: with TLS and SASL)
	@$(KEPT) $(BIN)/metaquorum demo $(if $(KAFKA),--kafka $(KAFKA)) $(if $(SECURE),--secure) $(ARGS)

.PHONY: install
install: $(VENV)/installed ## install the locked dependencies and this project into .venv

$(VENV)/locked: $(LOCK)
	@$(if $(PYTHON),,echo "No Python >= $(OLDEST_PYTHON) with its venv module was found. Install one," \
		"or name it: make PYTHON=/path/to/python3" >&2; exit 1)
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "$(PYTHON) is not a Python >= $(OLDEST_PYTHON). Name one: make PYTHON=/path/to/python3" >&2; \
		exit 1; }
	@echo "Installing $(LOCK) into $(VENV) with $(PYTHON); this happens once."
	@"$(PYTHON)" -m venv --clear $(VENV)
	@$(PIP) install --quiet --require-hashes -r $(LOCK)
	@touch $@

$(VENV)/installed: $(VENV)/locked pyproject.toml
	@$(PIP) install --quiet --no-deps --no-build-isolation --no-index -e .
	@touch $@

# PySpark, for the lag reports: some 500 MB, which only those need who run them or the whole suite.
# It publishes no wheel, and is built by the setuptools of the first lock.
$(VENV)/spark: $(VENV)/locked $(SPARK_LOCK)
	@echo "Installing $(SPARK_LOCK) into $(VENV); this happens once, and takes a few minutes."
	@$(PIP) install --quiet --require-hashes --no-build-isolation -r $(SPARK_LOCK)
	@touch $@

.PHONY: spark
spark: $(VENV)/installed $(VENV)/spark ## install the locked PySpark into .venv as well, for the lag reports

.PHONY: compiled
compiled: $(COMPILED)/installed ## compile the hot modules into .compiled: twice the commits; needs a C compiler and Python's headers

$(COMPILED)/installed: $(VENV)/installed hatch_build.py $(SOURCES)
	@echo "Compiling into $(COMPILED) with mypyc; this takes a minute or two, and happens once."
	@rm -rf $(COMPILED) && mkdir $(COMPILED)
	@$(BIN)/python hatch_build.py $(COMPILED) >$(COMPILED)/log 2>&1 \
		|| { tail -n 3 $(COMPILED)/log >&2; exit 1; }
	@touch $@

# Both wheels are built of the sdist, as an installer would: a file that it lacks is missed here.
DIST := $(CURDIR)/dist
FROM_SDIST := build/from-sdist
UNPACKED_SDIST := rm -rf $(FROM_SDIST) $(DIST)/*.tar.gz && mkdir -p $(FROM_SDIST) \
	&& $(BIN)/python -m hatchling build -t sdist -d $(DIST) \
	&& tar -xzf $(DIST)/*.tar.gz -C $(FROM_SDIST) --strip-components=1
WHEEL := cd $(FROM_SDIST) && $(CURDIR)/$(BIN)/python -m hatchling build -t wheel -d $(DIST)

.PHONY: wheels
wheels: $(VENV)/installed ## build the sdist, the pure wheel and the compiled one into dist/; needs a C compiler and Python's headers
	@rm -rf $(DIST)
	@$(UNPACKED_SDIST)
	@$(WHEEL)
	@echo "Compiling with mypyc; this takes a minute or two."
	@METAQUORUM_COMPILED=1 && export METAQUORUM_COMPILED && $(WHEEL) >$(DIST).log 2>&1 \
		|| { tail -n 3 $(DIST).log >&2; exit 1; }
	@rm $(DIST).log && ls -1 dist/*.whl

.PHONY: try-wheels
try-wheels: $(VENV)/installed ## install each wheel into an empty environment, from the registry and by the lock, and run the demo of it
	$(PYTEST) -m long tests/process/test_installed_anew.py $(ARGS)

DEBIANS_PYTHON := /usr/bin/python3

.PHONY: deb
deb: wheels ## build the Debian package into dist/, for the release of Debian that this is
	@$(BIN)/python -c 'import sys; sys.exit(sys.base_prefix != "/usr")' || { \
		echo "The package runs on Debian's Python: make clean && make deb PYTHON=$(DEBIANS_PYTHON)" >&2; exit 1; }
	@mkdir -p build/deb && deploy/debian/build.sh $(BIN)/pip $(DIST)/*-cp*.whl $(RUN_LOCK) build/deb
	@mv build/deb/*.deb $(DIST)/ && ls -1 dist/*.deb

.PHONY: try-deb
try-deb: ## install the package of `make deb`, run a node of it, remove and purge it, in a copy of this system that is forgotten; needs root
	deploy/debian/try.sh dist/*.deb

BUILDER ?= $(shell for each in docker podman buildah; do \
	command -v $$each >/dev/null && $$each info >/dev/null 2>&1 && echo $$each && break; done)
IMAGE ?= metaquorum:latest

.PHONY: image
image: $(VENV)/installed ## build the container image with docker, podman or buildah (IMAGE=NAME:TAG, ARGS=--build-arg=BASE=...)
	@$(if $(BUILDER),,echo "No docker, podman or buildah answers here. Install one, or name it: BUILDER=docker" >&2; exit 1)
	@$(UNPACKED_SDIST)
	$(BUILDER) build -t $(IMAGE) -f $(FROM_SDIST)/deploy/container/Containerfile $(ARGS) $(FROM_SDIST)

.PHONY: check
check: $(VENV)/installed ## format, lint, types, imports: the gate before a commit
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy --strict $(CODE)
	$(BIN)/lint-imports --no-logo

# pytest rewrites the assertions of a module when it is first imported, and keeps the result. Two
# processes do that here for all of the workers, each of which would do it otherwise.
TESTS_HALVES := "tests/admin tests/broker tests/chaos tests/process" "tests/controller tests/lag tests/quorum tests/statemachine"

$(VENV)/rewritten: $(VENV)/installed
	@printf '%s\n' $(TESTS_HALVES) | xargs -P 2 -L 1 \
		env $(KEPT) $(BIN)/python -m pytest --collect-only -q -p no:cacheprovider >/dev/null || true
	@touch $@

.PHONY: quick
quick: $(VENV)/installed $(VENV)/rewritten ## in two minutes: the tests that start no processes, few seeds
	$(PYTEST) $(SPREAD) -m "not process and not thorough" --hypothesis-profile=quick $(ARGS)

.PHONY: test
test: $(VENV)/installed $(VENV)/spark $(VENV)/rewritten ## the whole suite, with real processes; `make long` has what takes minutes
	$(PYTEST) $(SPREAD) -m "not long" $(ARGS)

.PHONY: test-compiled
test-compiled: $(COMPILED)/installed $(VENV)/spark ## the whole suite against what `make compiled` made
	$(COMPILED_M) pytest -o pythonpath= $(SPREAD) -m "not long and not interpreted" $(ARGS)

.PHONY: long
long: $(VENV)/installed ## what takes minutes: faults of real processes, older releases of Kafka, a Spark cluster, hostile frames
	$(PYTEST) -m long $(ARGS)

.PHONY: golden
golden: $(VENV)/installed ## record transcripts anew; read the difference before you commit it
	$(PYTEST) --rewrite -p no:randomly $(ARGS)

ROUNDS ?= 50
SEED ?=
KIND ?= everything

.PHONY: fire
fire: $(VENV)/installed ## kill, hold up and cut off real controllers under load, and judge what is left (ROUNDS=50 SEED=7)
	$(PYTHON_M) chaos.processes --rounds $(ROUNDS) $(if $(SEED),--seed $(SEED)) $(ARGS)

FRAMES ?= 200000
LISTENER ?=
AS ?=

.PHONY: fuzz
fuzz: $(VENV)/installed ## send hostile frames to each listener of real nodes, and judge what is left (FRAMES=200000 SEED=7 LISTENER=broker CALLER=user)
	$(PYTHON_M) chaos.fuzz --frames $(FRAMES) $(if $(SEED),--seed $(SEED)) $(if $(LISTENER),--listener $(LISTENER)) $(if $(CALLER),--as $(CALLER)) $(ARGS)

.PHONY: bench
bench: $(MEASURED) ## measure on this machine, beside etcd, Kafka and PySyncObj, and write docs/performance.md
	$(MEASURE_M) bench.beside_others --write docs/performance.md $(ARGS)
	$(MEASURE_M) bench.partitions --write docs/performance.md

.PHONY: bench-partitions
bench-partitions: $(MEASURED) ## measure many partitions, beside Kafka's controllers, and write docs/performance.md
	$(MEASURE_M) bench.partitions --write docs/performance.md $(ARGS)

.PHONY: bench-commits
bench-commits: $(MEASURED) ## measure our commits alone and write them into docs/performance.md
	$(MEASURE_M) bench.floor --write docs/performance.md
	$(MEASURE_M) bench.commits --write docs/performance.md $(ARGS)

.PHONY: bench-kafka
bench-kafka: $(MEASURED) ## measure beside Kafka's own controllers and write docs/performance.md
	$(MEASURE_M) bench.beside_kafka --write docs/performance.md $(ARGS)

.PHONY: bench-scale
bench-scale: $(MEASURED) ## measure 2,000,000 partitions on 1,000 brokers and write docs/performance.md
	$(MEASURE_M) bench.scale --write docs/performance.md $(ARGS)

.PHONY: bench-backup
bench-backup: $(MEASURED) ## measure backup and restore of 1,000,000 partitions and write docs/performance.md
	$(MEASURE_M) bench.backup --write docs/performance.md $(ARGS)

.PHONY: bench-hostile
bench-hostile: $(MEASURED) ## attack a cluster in the ways that once stopped it, and print how long others wait
	$(MEASURE_M) bench.hostile_requests $(ARGS)

.PHONY: bench-streams
bench-streams: $(MEASURED) ## measure commits while 500 clients watch the leader, beside none
	$(MEASURE_M) bench.event_streams $(ARGS)

.PHONY: bench-observers
bench-observers: $(MEASURED) ## measure commits while 100, 300 and 1,000 observers follow the leader, beside none, and write docs/performance.md
	$(MEASURE_M) bench.observers --write docs/performance.md $(ARGS)

.PHONY: bench-lag
bench-lag: $(VENV)/installed $(VENV)/spark ## measure lag reports and write docs/lag.md and docs/lag_scale.md; needs Java 17
	$(PYTHON_M) bench.lag_scan --write docs/lag.md
	$(PYTHON_M) bench.lag_report --write docs/lag.md
	$(PYTHON_M) bench.lag_many --write docs/lag.md
	$(PYTHON_M) bench.lag_watch --write docs/lag.md
	$(PYTHON_M) bench.lag_archive --write docs/lag.md
	$(PYTHON_M) bench.lag_at_scale docs/lag.md --write docs/lag_scale.md

.PHONY: compatibility
compatibility: $(VENV)/installed ## make every call of Kafka's tools and clients at real clusters, and write docs/compatibility.md; needs Java 17, Maven, Node and Go
	$(PYTHON_M) bench.compatibility --write docs/compatibility.md $(ARGS)

.PHONY: kafka-news
kafka-news: $(VENV)/installed ## list what a release of Kafka knows and we do not serve, from its own jars (RELEASE=4.4.0, or a folder of jars); needs Maven
	@$(PYTHON_M) bench.compatibility.kafka_news $(or $(RELEASE),$(error name the release: make kafka-news RELEASE=4.4.0))

KILLS ?= 20

.PHONY: siege
siege: $(VENV)/installed ## move 200 partitions under load while controllers and brokers die around it (KILLS=20)
	$(PYTEST) tests/process/test_moves_under_fire.py --controller-kills $(KILLS) $(ARGS)

.PHONY: authorizer-oracle
authorizer-oracle: $(VENV)/installed ## compare 100,000 decisions by ACLs with those of Kafka's StandardAuthorizer, of each release; needs Java 17 and Maven
	$(PYTEST) tests/process/test_authorizer_oracle.py --authorizer-requests 100000 $(ARGS)

# All of these are found by their seeds: the same seed is the same run, event for event.
SEEDS ?= 200
BASE ?= 0

.PHONY: sim
sim: $(VENV)/installed ## quorums and whole clusters under faults in virtual time (SEEDS=n [BASE=m]: so many; SEED=n: that one; KIND=quorum, cluster, hostile)
	$(PYTHON_M) chaos sim --profile $(KIND) $(if $(SEED),--seed $(SEED),--seeds $(SEEDS) --base $(BASE) --keep-going) $(ARGS)

IMAGES ?= 10000

.PHONY: crashes
crashes: $(VENV)/installed ## lose power at every operation of a disk, and recover what may be left (IMAGES=n)
	$(PYTHON_M) chaos crashes --images $(IMAGES) $(ARGS)

.PHONY: mutants
mutants: $(VENV)/installed ## plant every known fault in the product and see it found; writes docs/mutants.md
	$(PYTHON_M) chaos mutants --write docs/mutants.md $(ARGS)

.PHONY: screenshots
screenshots: $(VENV)/installed ## take the pictures of the live page for the documentation; needs Chromium
	$(PYTHON_M) tests.support.screenshots docs

.PHONY: format
format: $(VENV)/installed ## format the code and mend what lint can mend
	$(BIN)/ruff check --fix --exit-zero
	$(BIN)/ruff format

# The lock is made with the oldest Python, whose requirements include those of the newer ones.
COMPILE = CUSTOM_COMPILE_COMMAND="make lock" .lock-venv/bin/pip-compile --quiet --upgrade \
	--allow-unsafe --generate-hashes --strip-extras --no-emit-options --no-emit-index-url \
	--no-emit-find-links --no-emit-trusted-host
.PHONY: lock
lock: ## resolve pyproject.toml anew into requirements/*.txt (needs a network and python3.11)
	python$(OLDEST_PYTHON) -m venv --clear .lock-venv
	.lock-venv/bin/python -m pip install --quiet --disable-pip-version-check pip-tools==7.6.2
	$(COMPILE) --extra fast --extra test --extra dev \
		--build-deps-for editable --output-file $(LOCK) pyproject.toml
	python$(OLDEST_PYTHON) -c 'import tomllib; print("\n".join(tomllib.load(open( \
		"pyproject.toml", "rb"))["project"]["optional-dependencies"]["spark"]))' \
		| $(COMPILE) --no-annotate --constraint $(LOCK) --output-file $(SPARK_LOCK) -
	$(COMPILE) --no-annotate --constraint $(LOCK) --extra fast --output-file $(RUN_LOCK) pyproject.toml
	rm -rf .lock-venv

.PHONY: clean
clean: ## remove the environment, caches and whatever was built
	rm -rf $(VENV) $(COMPILED) .lock-venv build dist .hypothesis .import_linter_cache .mypy_cache \
		.pytest_cache .ruff_cache
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +
