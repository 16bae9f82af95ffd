# SPDX-License-Identifier: BSD-2-Clause
# pyheaptrace: make, make demo, make test, make lint, make asan, make install
# For another machine: make cross-aarch64, make cross-check; or MACHINE= and CROSS_COMPILE=.

CROSS_COMPILE ?=
ifeq ($(CROSS_COMPILE),)
  CC    ?= cc
else
  CC    := $(CROSS_COMPILE)gcc
  AR    := $(CROSS_COMPILE)ar
endif
CLANG   ?= clang
# Ubuntu's /usr/sbin/bpftool only works for the running kernel; the one beside it always does.
ifndef BPFTOOL
BPFTOOL := $(firstword $(shell for b in bpftool /usr/sbin/bpftool \
	/usr/lib/linux-tools*/*/bpftool; do $$b version >/dev/null 2>&1 && echo $$b; done; :) bpftool)
endif
PKGCONF ?= pkg-config
PREFIX  ?= /usr/local
DESTDIR ?=
BUILD   ?= build
V       ?= 0

ifeq ($(V),1)
  Q =
  msg =
else
  Q = @
  msg = @printf '  %-8s %s\n' "$(1)" "$(patsubst $(abspath $(BUILD))/%,%,$(2))";
endif

# What it is built for, as uname -m has it, and as bpf_tracing.h does.
MACHINE ?= $(shell uname -m)
BPF_MACHINE_x86_64 := x86
BPF_MACHINE_aarch64 := arm64
BPF_MACHINE := $(BPF_MACHINE_$(MACHINE))
ifeq ($(BPF_MACHINE),)
  $(error not written for $(MACHINE): x86_64 and aarch64 only)
endif
VERSION := $(shell cat VERSION)

PKGS := libbpf libelf zlib capstone json-c ncursesw
ifeq ($(filter clean help,$(MAKECMDGOALS)),)
  PKG_MISSING := $(strip $(foreach p,$(PKGS),$(shell $(PKGCONF) --exists $(p) || echo $(p))))
  ifneq ($(PKG_MISSING),)
    $(error missing libraries: $(PKG_MISSING); run sudo scripts/install-deps.sh)
  endif
endif
PKG_CFLAGS := $(shell $(PKGCONF) --cflags $(PKGS) 2>/dev/null)
PKG_LIBS   := $(shell $(PKGCONF) --libs $(PKGS) 2>/dev/null) -lm -lpthread

SAN ?=
WARN := -Wall -Wextra -Werror
CFLAGS ?= -O2 -g
ALL_CFLAGS = -std=gnu11 -D_GNU_SOURCE -DPHT_VERSION='"$(VERSION)"' $(WARN) \
	-Iinclude -Iuser -I$(BUILD) $(PKG_CFLAGS) -MMD -MP $(CFLAGS) $(SAN)
# The verifier counts what clang emits: -O2 is not a matter of taste here.
BPF_CFLAGS = -g -O2 -target bpf -D__TARGET_ARCH_$(BPF_MACHINE) $(WARN) -Wno-unused-function \
	-Iinclude -Ivmlinux/$(MACHINE) -MMD -MP

USER_SRC := $(filter-out user/main.c,$(wildcard user/*.c))
USER_ASM := $(wildcard user/*.S)
USER_OBJ := $(USER_SRC:user/%.c=$(BUILD)/user/%.o) $(USER_ASM:user/%.S=$(BUILD)/user/%.o)
LIB      := $(BUILD)/libpht.a
SKEL     := $(BUILD)/pyheaptrace.skel.h
BIN      := $(BUILD)/pyheaptrace
GEN      := $(patsubst tests/gen/%.c,$(BUILD)/tests/gen_%,$(wildcard tests/gen/*.c))
UNIT_NOT ?=
UNIT     := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(filter-out \
	$(UNIT_NOT:%=tests/unit/test_%.c),$(wildcard tests/unit/test_*.c)))

.PHONY: all
all: $(BIN)

$(BUILD) $(BUILD)/user $(BUILD)/tests:
	$(Q)mkdir -p $@

$(BUILD)/pyheaptrace.bpf.o: bpf/pyheaptrace.bpf.c | $(BUILD)
	$(call msg,BPF,$@)
	$(Q)$(CLANG) $(BPF_CFLAGS) -c $< -o $@.tmp -MF $(@:.o=.d) -MT $@
	$(Q)$(BPFTOOL) gen object $@ $@.tmp && rm -f $@.tmp

$(SKEL): $(BUILD)/pyheaptrace.bpf.o
	$(call msg,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name pyheaptrace_bpf > $@

$(BUILD)/user/%.o: user/%.c $(SKEL) VERSION Makefile | $(BUILD)/user
	$(call msg,CC,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -c $< -o $@

$(BUILD)/user/%.o: user/%.S Makefile | $(BUILD)/user
	$(call msg,AS,$@)
	$(Q)$(CC) -Iinclude -MMD -MP -g -c $< -o $@

# Page, style and scripts of flame graphs, taken in by .incbin.
$(BUILD)/user/flame_assets.o: $(wildcard user/flame/*)

$(LIB): $(USER_OBJ)
	$(call msg,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(BIN): $(BUILD)/user/main.o $(LIB)
	$(call msg,LINK,$@)
	$(Q)$(CC) $(SAN) $(LDFLAGS) $^ $(PKG_LIBS) -o $@

# Unit tests: pure logic, no privilege.
$(BUILD)/tests/test_%: tests/unit/test_%.c $(LIB) | $(BUILD)/tests
	$(call msg,TEST,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -Wno-error=unused-parameter -Wno-unused-parameter -Itests/unit -Ibpf \
		$(patsubst -I%,-isystem %,$(shell $(PKGCONF) --cflags cmocka)) $(LDFLAGS) $< $(LIB) \
		$(PKG_LIBS) $(shell $(PKGCONF) --libs cmocka) -o $@

# Programs that make what tests need; big_capture writes a capture of 100,000 sites.
$(BUILD)/tests/gen_%: tests/gen/%.c $(LIB) | $(BUILD)/tests
	$(call msg,GEN,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $< $(LIB) $(PKG_LIBS) -o $@

.PHONY: unit
unit: $(UNIT)
	$(Q)set -e; for t in $(UNIT); do echo "== $${t##*/}"; $(UNIT_RUN) $$t; done

# The unit tests once more, built with the sanitizers, in a tree of their own.
.PHONY: asan
asan:
	$(Q)$(MAKE) --no-print-directory BUILD=build/asan CFLAGS="-O1 -g -fno-omit-frame-pointer" \
		SAN="-fsanitize=address,undefined -fno-sanitize-recover=all" unit

# Built for aarch64: compiler from install-deps.sh --cross, libraries from Debian's archive.
# Without them both targets say so and do nothing; PHT_REQUIRE_CROSS=1 makes that a failure.
CROSS_GNU  := aarch64-linux-gnu
CROSS_ROOT := $(abspath build/cross/aarch64)
CROSS_LIBS := $(CROSS_ROOT)/lib/$(CROSS_GNU):$(CROSS_ROOT)/usr/lib/$(CROSS_GNU)
CROSS_SKIP  = { echo "SKIPPED: $@: $(1)" >&2; [ -z "$${PHT_REQUIRE_CROSS:-}" ]; exit; }
CROSS_HAS   = command -v $(1) >/dev/null || \
	$(call CROSS_SKIP,no $(1); sudo scripts/install-deps.sh --cross)
CROSS_MAKE  = scripts/cross-sysroot.sh aarch64 $(CROSS_ROOT) >/dev/null || \
	$(call CROSS_SKIP,no libraries); \
	export PKG_CONFIG_LIBDIR=$(CROSS_ROOT)/usr/lib/$(CROSS_GNU)/pkgconfig \
	PKG_CONFIG_SYSROOT_DIR=$(CROSS_ROOT) PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 \
	PKG_CONFIG_ALLOW_SYSTEM_LIBS=1; \
	$(MAKE) --no-print-directory MACHINE=aarch64 CROSS_COMPILE=$(CROSS_GNU)- BUILD=build/aarch64 \
	LDFLAGS="-L$(CROSS_ROOT)/lib/$(CROSS_GNU) -Wl,-rpath-link,$(CROSS_LIBS)"

.PHONY: cross-aarch64
cross-aarch64:
	$(Q)$(call CROSS_HAS,$(CROSS_GNU)-gcc); $(CROSS_MAKE) all

# That build's unit tests by user emulation, but for those that look into live processes, of
# which the emulator shows its own side only, and two that take minutes there.
CROSS_NOT := allocfind census freeze glibc_heap got got_hostile pools proc pyalloc pycode pyinfo \
	estimate leaks
.PHONY: cross-check
cross-check:
	$(Q)$(call CROSS_HAS,$(CROSS_GNU)-gcc); $(call CROSS_HAS,qemu-aarch64); \
		$(CROSS_MAKE) all unit UNIT_NOT="$(CROSS_NOT)" \
		UNIT_RUN="qemu-aarch64 -L /usr/$(CROSS_GNU) -E LD_LIBRARY_PATH=$(CROSS_LIBS)"

.PHONY: integration
integration: $(BIN) $(GEN)
	$(Q)tests/run-integration.sh

# The old kernels run beside what needs one CPU and measures no time.
.PHONY: test
test: $(BIN)
	$(Q)log=$(BUILD)/vmtest-quick.log; nice scripts/vmtest-quick.sh >$$log 2>&1 & vm=$$!; \
		trap "kill $$vm 2>/dev/null" EXIT; trap "exit 130" INT TERM; \
		$(MAKE) --no-print-directory unit && $(MAKE) --no-print-directory asan && \
		$(MAKE) --no-print-directory cross-aarch64 && \
		{ wait $$vm; code=$$?; cat $$log; exit $$code; }
	$(Q)$(MAKE) --no-print-directory integration

# Boots a kernel of Debian's in QEMU and runs tests/vm/core.sh in it: KERNEL=5.10, 6.1, 6.12, 7.
KERNEL ?= 5.10
.PHONY: vmtest
vmtest: $(BIN)
	$(Q)scripts/vmtest.sh $(KERNEL)

.PHONY: vmtest-all
vmtest-all: $(BIN)
	$(Q)failed=; for k in 5.10 6.1 6.12 7; do echo "== kernel $$k"; \
		scripts/vmtest.sh $$k || failed="$$failed $$k"; done; \
		[ -z "$$failed" ] || { echo "vmtest-all FAILED:$$failed" >&2; exit 1; }

# The core of that on old kernels, in a minute or two; part of test.
.PHONY: vmtest-quick
vmtest-quick: $(BIN)
	$(Q)scripts/vmtest-quick.sh

# The same for an arm64 kernel, with what runs there: SUITE=bookworm (6.1) or trixie (6.12).
SUITE ?= bookworm
.PHONY: vmtest-aarch64
vmtest-aarch64: cross-aarch64
	$(Q)scripts/vmtest-aarch64.sh $(SUITE)

.PHONY: demo
demo: $(BIN)
	$(Q)scripts/demo.sh $(BIN)

# Takes most of an hour; BENCH_ARGS="--quick --workloads json" for less. Never part of test.
.PHONY: bench
bench: $(BIN)
	$(Q)mkdir -p $(BUILD)/bench
	$(Q)bench/bench.py --tracer $(BIN) --build $(BUILD) --json $(BUILD)/bench/results.json \
		--markdown $(BUILD)/bench/results.md $(BENCH_ARGS)

C_FILES   := $(wildcard include/*.h user/*.[ch] bpf/*.[ch] tests/unit/*.[ch] tests/programs/*.c tests/gen/*.c \
	bench/workloads/*.c)
SH_FILES  := $(wildcard scripts/*.sh tests/*.sh tests/vm/*.sh tests/gen/*.sh .ci/run)
PY_FILES  := $(wildcard tests/integration/*.py tests/vm/*.py tests/programs/*.py scripts/*.py bench/*.py \
	bench/workloads/*.py tests/gen/*.py docs/examples/*.py)

.PHONY: lint
lint: $(SKEL)
	$(Q)clang-format --dry-run -Werror $(C_FILES)
	$(Q)clang-tidy --quiet $(USER_SRC) user/main.c -- $(filter-out -MMD -MP,$(ALL_CFLAGS))
	$(Q)for f in $(SH_FILES); do sh -n $$f || exit 1; done
	$(Q)for f in $(PY_FILES); do python3 -c 'import ast,sys; ast.parse(open(sys.argv[1]).read())' $$f \
		|| exit 1; done
	$(Q)[ ! -x scripts/check-layers.sh ] || scripts/check-layers.sh

DOC := $(DESTDIR)$(PREFIX)/share/doc/pyheaptrace
SHARE := $(DESTDIR)$(PREFIX)/share
MAN := $(SHARE)/man/man1
BASHCOMP := $(SHARE)/bash-completion/completions
ZSHCOMP := $(SHARE)/zsh/site-functions
FISHCOMP := $(SHARE)/fish/vendor_completions.d

# Man pages and completions say what --help says.
.PHONY: docs
docs: $(BIN)
	$(Q)scripts/gen-docs.py $(BIN)

.PHONY: install
install: $(BIN)
	$(Q)install -d $(DESTDIR)$(PREFIX)/bin $(DOC)/LICENSES
	$(Q)install -m 755 $(BIN) $(DESTDIR)$(PREFIX)/bin/pyheaptrace
	$(Q)install -m 644 README.md LICENSE $(wildcard docs/*.md) $(DOC)
	$(Q)install -m 644 $(wildcard LICENSES/*) $(DOC)/LICENSES
	$(Q)install -d $(DOC)/images $(DOC)/examples $(MAN) $(BASHCOMP) $(ZSHCOMP) $(FISHCOMP)
	$(Q)install -m 644 $(wildcard docs/images/*.svg docs/images/*.png) $(DOC)/images
	$(Q)install -m 644 $(wildcard docs/examples/*.py) $(DOC)/examples
	$(Q)install -m 644 $(wildcard man/*.1) $(MAN)
	$(Q)install -m 644 completions/pyheaptrace.bash $(BASHCOMP)/pyheaptrace
	$(Q)install -m 644 completions/_pyheaptrace $(ZSHCOMP)/_pyheaptrace
	$(Q)install -m 644 completions/pyheaptrace.fish $(FISHCOMP)/pyheaptrace.fish

.PHONY: uninstall
uninstall:
	$(Q)rm -f $(DESTDIR)$(PREFIX)/bin/pyheaptrace
	$(Q)rm -rf $(DOC)
	$(Q)rm -f $(addprefix $(MAN)/,$(notdir $(wildcard man/*.1))) $(BASHCOMP)/pyheaptrace \
		$(ZSHCOMP)/_pyheaptrace $(FISHCOMP)/pyheaptrace.fish

.PHONY: clean
clean:
	$(Q)rm -rf $(BUILD)

.DELETE_ON_ERROR:
-include $(wildcard $(BUILD)/*.d $(BUILD)/user/*.d $(BUILD)/tests/*.d)
