# SPDX-License-Identifier: Apache-2.0
# The front door. CMake does the building; see CONTRIBUTING.md.

SEED ?= 7
SEEDS ?= 2000
PRESETS ?= dev
PREFIX ?= /usr/local
SCENARIOS = cluster|worker|coordinator
DESTDIR ?=

.PHONY: all deps build test scenarios pictures demo bench sim soak soak-preempt hangs interop tidy valgrind fuzz nightly install package image wheel apidoc uninstall clean

all: build

deps:
	@tools/deps

build: deps
	@cmake --preset dev --log-level=WARNING
	@cmake --build --preset dev

demo: build
	@tools/demo --seed $(SEED) $(if $(HANDS),--hands)

test:
	@tools/deps --test
	@tools/test $(PRESETS)

# The tests of docs/behaviour/cluster.md; SAN=asan or tsan: under that sanitizer.
scenarios:
	@tools/deps
	@tools/test -R '$(SCENARIOS)' $(or $(SAN),dev)

# The pictures of the page at --http in README and docs are what its tests see.
pictures: build
	@tools/deps --browser
	@MUSTER_BUILD=$(CURDIR)/build/dev PICTURES=$(CURDIR)/docs/pictures \
	    pytest-3 -q -rs -p no:cacheprovider tests/process/test_page.py -k pictures

# What is measured against is built in if it is there: so it comes first. PYTHON=1 measures what is in Python:
# the store, closures beside Dask and, in the environment TEST_TENSORFLOW, ClusterCoordinator, and restarts of PyTorch
# beside NVRx and torchrun, which pip installs (5 GB) into the folder TEST_TORCH.
TORCH = $(or $(TEST_TORCH),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/muster-torch)
bench: deps
	@tools/deps --bench
	@cmake --preset bench --log-level=WARNING
	@cmake --build --preset bench
	@tools/bench $(if $(PYTHON),--only '^Py' --python '$(TORCH)')

sim: build
	@build/dev/bin/sim --seeds $(SEEDS) $(if $(FIRST),--first $(FIRST))
	@[ ! -x build/dev/bin/replica_sim ] || build/dev/bin/replica_sim --seeds $(SEEDS) $(if $(FIRST),--first $(FIRST))

soak: build
	@tools/soak $(if $(KILLS),--kills $(KILLS)) $(if $(MINUTES),--minutes $(MINUTES)) \
		$(if $(ONLY),--only $(ONLY)) $(if $(RUNS),--runs $(RUNS)) \
		$(if $(filter command environment,$(firstword $(origin SEED))),--seed $(SEED))

soak-preempt: build
	@tools/soak_preempt $(if $(NOTICES),--notices $(NOTICES)) \
		$(if $(filter command environment,$(firstword $(origin SEED))),--seed $(SEED))

# The real clients of JAX and torch, which pip installs below build/interop, against a real `muster run`.
interop: build
	@tools/deps --test
	@tools/interop

# Each way to hang in jobs of every size, of which `make test` tries some; SAN=asan or tsan: under that sanitizer.
hangs:
	@tools/deps --test
	@MUSTER_TEST_ALL=1 tools/test -R '^process_test_hang_loop$$' $(or $(SAN),dev)

tidy: build
	@tools/deps --lint
	@tools/tidy build/dev
	@tools/tidy --clang $(if $(DEEP),--deep) build/dev

valgrind:
	@tools/deps --fuzz
	@tools/test valgrind

# SECONDS is also a variable of some shells: only the one that is given here counts.
fuzz:
	@tools/deps --fuzz
	@tools/fuzz --seconds $(if $(filter command line,$(origin SECONDS)),$(SECONDS),600) $(if $(RUNS),--runs $(RUNS)) $(HARNESS)

# The searches that find more the longer they take, for a few hours.
nightly:
	@tools/nightly

install: deps
	@cmake --preset release --log-level=WARNING -DCMAKE_INSTALL_PREFIX='$(PREFIX)'
	@cmake --build --preset release
	@umask 022; DESTDIR='$(DESTDIR)' cmake --install build/release

# The Debian packages, in dist/debian: built, checked by lintian, and tried in a fresh root (minutes).
package: deps
	@tools/deps --package
	@tools/package
	@tools/package --try

# The container's image, built and tried without a registry (minutes).
image: deps
	@tools/deps --image
	@tools/image

# The Python package with the library and the program inside, and its source, in dist.
wheel: deps
	@tools/deps --wheel
	@tools/wheel

# The pages of the Python API, in dist/api.
apidoc: build
	@tools/deps --wheel
	@tools/apidoc build/dev dist/api

uninstall:
	@DESTDIR='$(DESTDIR)' tools/uninstall build/release/install_manifest.txt

clean:
	rm -rf build
