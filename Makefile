# flock: the front door. Each target installs what it lacks and says so.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

CARGO    ?= cargo
# A static plugin and agent: the same flags for the image, the demo's release form and the bench. No path of
# this machine goes into them, so that two clones of a commit build the same. The plugin is executed for every
# call, and is built with musl: glibc's start alone asks the processor some seventy questions, each a trap under
# virtualisation (VERSION: 0.22 ms and 0.6 MB with musl, 0.77 ms and 1.3 MB with glibc, /bin/true 0.79 ms).
TRIPLE   := $(shell uname -m)-unknown-linux-gnu
MUSL     := $(shell uname -m)-unknown-linux-musl
STATIC   := target/$(TRIPLE)/release
CARGO_HOME ?= $(HOME)/.cargo
STATIC_FLAGS := -C target-feature=+crt-static --remap-path-prefix=$(CARGO_HOME)=/cargo --remap-path-prefix=$(CURDIR)=/flock

# The image, its tag, and the archive that `make image-tar` leaves.
IMAGE     ?= flock:dev
IMAGE_TAR ?= target/flock-image.tar
# Where the sources are to be had, for the image's label; none is written when empty.
IMAGE_SOURCE ?=
VERSION   := $(shell sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
REVISION  := $(shell git describe --always --abbrev=40 --dirty --exclude='*' 2>/dev/null || echo unknown)
# When everything in the image was made, as far as it says: when the commit was.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)

# What each target needs of Debian, by command or file -> package.
DEB_DEMO  := ip:iproute2 ping:iputils-ping nft:nftables bird:bird2 /usr/lib/frr/bgpd:frr
# The routers that we are tested with and measured beside.
DEB_ROUTERS := bird:bird2 /usr/lib/frr/bgpd:frr gobgpd:gobgpd /usr/sbin/bgpd:openbgpd exabgp:exabgp
# What reads deploy/: kubectl's kustomize, and Go with the libraries that helm renders charts with.
DEB_DEPLOY := kubectl:kubernetes-client go:golang-go \
              /usr/share/gocode/src/github.com/Masterminds/sprig:golang-github-masterminds-sprig-dev \
              /usr/share/gocode/src/sigs.k8s.io/yaml:golang-k8s-sigs-yaml-dev
DEB_TEST  := $(DEB_DEMO) iptables:iptables /usr/lib/cni/ptp:containernetworking-plugins \
             $(DEB_ROUTERS) podman:podman containerd:containerd runc:runc curl:curl gcc:gcc /usr/include/stdio.h:libc6-dev mount:mount tmux:tmux pkill:procps jq:jq promtool:prometheus tcpdump:tcpdump \
             $(DEB_DEPLOY) chromium:chromium chromedriver:chromium-driver /usr/share/fonts/truetype/dejavu/DejaVuSansCondensed.ttf:fonts-dejavu-extra
DEB_INTEROP := $(DEB_DEMO) $(DEB_ROUTERS) podman:podman runc:runc tcpdump:tcpdump
DEB_BENCH := $(DEB_DEMO) $(DEB_ROUTERS) iptables:iptables /usr/lib/cni/ptp:containernetworking-plugins iperf3:iperf3 \
             valgrind:valgrind containerd:containerd runc:runc gcc:gcc /usr/include/stdio.h:libc6-dev
DEB_IMAGE := buildah:buildah jq:jq
DEB_E2E   := $(DEB_DEMO) $(DEB_IMAGE) /usr/lib/cni/ptp:containernetworking-plugins containerd:containerd runc:runc \
             curl:curl gcc:gcc /usr/include/stdio.h:libc6-dev mount:mount pgrep:procps openssl:openssl

SUDO := $(if $(filter 0,$(shell id -u)),,sudo)

# $(call debian,PAIRS): installs the packages of those pairs whose command or file is missing.
define debian
	@missing=(); for pair in $(1); do what=$${pair%%:*}; package=$${pair#*:}; \
	  if [[ $$what == /* ]]; then [[ -e $$what ]] || missing+=("$$package"); \
	  else PATH="$$PATH:/usr/sbin:/sbin" command -v "$$what" >/dev/null || missing+=("$$package"); fi; done; \
	if (( $${#missing[@]} )); then \
	  echo "==> installing $${missing[*]} (apt-get)"; \
	  $(SUDO) apt-get update -qq; \
	  DEBIAN_FRONTEND=noninteractive $(SUDO) apt-get install -y -qq --no-install-recommends "$${missing[@]}" >/dev/null; \
	fi
endef

# $(call cargo_tool,COMMAND,CRATE)
define cargo_tool
	@command -v $(1) >/dev/null || { echo "==> installing $(2) (cargo install; a few minutes, once)"; $(CARGO) install --locked --quiet $(2); }
endef

.PHONY: help
help: ## Show this list
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  \033[1mmake %-12s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build both binaries, release
	$(CARGO) build --release --locked --bins

.PHONY: demo
demo: demo-built ## Two ToRs (BIRD, FRR), three nodes, pods: announced, killed, drained, on this machine
	@$(SUDO) target/debug/demo $(DEMO_FLAGS)

.PHONY: rack
rack: demo-built ## The same rack, left standing until Ctrl-C, with how to enter it
	@$(SUDO) target/debug/demo --stand

.PHONY: demo-built
demo-built:
	$(call debian,$(DEB_DEMO))
	@[[ -e target/debug/demo ]] || echo "==> building (a minute or two, once)"
	@$(CARGO) build --locked --quiet -p flock-cni -p flock-agent -p flock-interop-tests --bins

.PHONY: test
test: ## Run all tests: units, kernel, crash, runtimes (as root)
	$(call debian,$(DEB_TEST))
	$(call cargo_tool,cargo-nextest,cargo-nextest)
	$(CARGO) build --locked --workspace --bins --examples
	$(CARGO) nextest run --locked --workspace
	$(CARGO) test --locked --workspace --doc --quiet

.PHONY: lint
lint: ## rustfmt, clippy, cargo-deny
	$(call cargo_tool,cargo-deny,cargo-deny)
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets --quiet -- -D warnings
	$(CARGO) deny --locked --log-level error check bans licenses sources

.PHONY: interop
interop: ## Our speaker against BIRD, FRR, GoBGP, OpenBGPD, ExaBGP in containers: the matrix (as root)
	$(call debian,$(DEB_INTEROP))
	@$(CARGO) build --locked --quiet -p flock-bgp-io --examples
	@$(CARGO) build --locked --quiet -p flock-interop-tests --bins
	@$(SUDO) target/debug/interop $(INTEROP_FLAGS)

# Seconds for each target; the corpus in the tree is replayed by `make test` without any of this.
FUZZ_SECONDS ?= 600
.PHONY: fuzz
fuzz: ## Fuzz the codec, FUZZ_SECONDS for each target (needs a nightly toolchain)
	$(call cargo_tool,cargo-fuzz,cargo-fuzz)
	bgp/wire/fuzz/run $(FUZZ_SECONDS)

STATIC_BUILD := RUSTFLAGS="$(STATIC_FLAGS)" $(CARGO) build --release --locked --target $(TRIPLE)
.PHONY: static
static:
	$(STATIC_BUILD) -p flock-agent --bins
	@$(MAKE) plugin

# Where rustup cannot have musl, it is built as the agent is: some 0.5 ms more a call.
.PHONY: plugin
plugin:
	@has() { [[ -d $$(rustc --print target-libdir --target $(MUSL)) ]]; }; \
	has || { echo "==> installing Rust's $(MUSL) (rustup)"; rustup target add $(MUSL) || true; }; \
	if has; then RUSTFLAGS="$(STATIC_FLAGS) -C relocation-model=static" \
	    $(CARGO) build --release --locked --target $(MUSL) -p flock-cni --bins; \
	  mkdir -p $(STATIC); install -m 755 target/$(MUSL)/release/flock $(STATIC)/flock; \
	else echo "==> no $(MUSL) to be had: the plugin is built with glibc"; $(STATIC_BUILD) -p flock-cni --bins; fi

# The suite is built as the image is, so that what both need is built once.
BENCH := $(STATIC)/bench
.PHONY: bench-built
bench-built: image-tar
	$(call debian,$(DEB_BENCH))
	@$(STATIC_BUILD) --quiet -p flock-interop-tests --bins
	@$(STATIC_BUILD) --quiet -p flock-bgp -p flock-bgp-io -p flock-bgp-wire --examples

.PHONY: bench
bench: bench-built ## Measure flock beside its peers in one run: table, target/bench/results.json, charts (as root)
	@$(SUDO) env FLOCK_IMAGE_TAR=$(CURDIR)/$(IMAGE_TAR) $(BENCH) $(BENCH_FLAGS)
	@$(BENCH) --check || { rc=$$?; (( rc == 2 )) || exit $$rc; echo "(worse than the recorded run, see above; the run itself went well)"; }

.PHONY: bench-quick
bench-quick: BENCH_FLAGS=--quick
bench-quick: bench ## The same in a few minutes

.PHONY: bench-check
bench-check: plugin ## Instruction counts against the recorded ones; fails where they have grown
	$(call debian,valgrind:valgrind)
	@$(STATIC_BUILD) --quiet -p flock-interop-tests --bin bench
	@$(STATIC_BUILD) --quiet -p flock-bgp --example counted
	@$(BENCH) --only instructions --out target/bench/instructions.json
	@$(BENCH) --check --out target/bench/instructions.json

.PHONY: bench-record
bench-record: ## Make the last full run the recorded one: docs/benchmarks.md and its charts
	@$(STATIC_BUILD) --quiet -p flock-interop-tests --bin bench
	@$(BENCH) --record

.PHONY: image
image: static ## Build the container image offline, from scratch, with both static binaries
	$(call debian,$(DEB_IMAGE))
	$(SUDO) buildah bud --isolation chroot -q -f deploy/Dockerfile \
	  --timestamp $(SOURCE_DATE_EPOCH) --identity-label=false \
	  --build-arg BIN=$(STATIC) --build-arg VERSION=$(VERSION) --build-arg REVISION=$(REVISION) \
	  $(if $(IMAGE_SOURCE),--label org.opencontainers.image.source=$(IMAGE_SOURCE)) -t $(IMAGE) .
	@$(SUDO) deploy/check-image $(IMAGE) $(VERSION)

.PHONY: image-tar
image-tar: image ## The same as an archive (IMAGE_TAR): ctr -n k8s.io images import
	@rm -f $(IMAGE_TAR)
	$(SUDO) buildah push -q $(IMAGE) docker-archive:$(IMAGE_TAR):$(IMAGE)
	@ls -l $(IMAGE_TAR)

.PHONY: image-twice
image-twice: image ## Build it again from a clone elsewhere, and compare: one commit is one image
	@elsewhere=$$(mktemp -d); trap 'rm -rf "$$elsewhere"' EXIT; \
	git clone -q . "$$elsewhere/flock"; $(MAKE) -C "$$elsewhere/flock" image IMAGE=flock:again; \
	id() { $(SUDO) buildah inspect --type image --format '{{.FromImageID}}' "$$1"; }; \
	one=$$(id $(IMAGE)); two=$$(id flock:again); $(SUDO) buildah rmi flock:again >/dev/null; \
	[[ $$one == "$$two" ]] || { echo "two images of one commit: $$one and $$two" >&2; exit 1; }; \
	echo "built twice, the same image: $$one"

# A real Kubernetes: where none is (KUBEBUILDER_ASSETS, or one built earlier) it is built from Debian's source.
.PHONY: e2e
e2e: image ## flock in a real Kubernetes on this machine: installed, upgraded, broken, rebooted (as root)
	$(call debian,$(DEB_E2E))
	@$(CARGO) build --locked --quiet -p flock-interop-tests --bins
	@existing=$${FLOCK_E2E_KUBECONFIG:-}; assets=; [[ $$existing ]] || assets=$$(interop-tests/kubernetes/assets); \
	$(SUDO) env KUBEBUILDER_ASSETS="$$assets" FLOCK_E2E_KUBECONFIG="$$existing" target/debug/e2e $(E2E_FLAGS)
