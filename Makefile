# SPDX-License-Identifier: Apache-2.0
# The front door. CMake does the building; see CONTRIBUTING.md.

SEED ?= 7
SEEDS ?= 2000
PRESETS ?= dev

.PHONY: all deps build test demo bench sim soak tidy clean

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

bench: build
	@tools/bench

sim: build
	@build/dev/bin/sim --seeds $(SEEDS) $(if $(FIRST),--first $(FIRST))

soak: build
	@tools/soak $(KILLS)

tidy: build
	@tools/deps --lint
	@tools/tidy --clang build/dev

clean:
	rm -rf build
