BIN := bin/mcpschedd

.PHONY: build demo test test-product test-tools programs race soak check bench stall conformance clients claude daemon fresh newuser plan live tpsbench dashboard man lines release module clean

# The race detector alone needs libc. What is compiled without it serves the programs, the tests and
# the checks.
export CGO_ENABLED = 0

# Without libc a process takes 1.5 MiB less, without the libraries of Prometheus, OpenTelemetry
# and Valkey 6, and with them but without a debugging page of gRPC 3.
build: ## the programs, in bin/: mcpschedd, the same with all libraries that it gives way to where one is needed, what clients start, and the guard
	go build -tags lean -o $(BIN) ./cmd/mcpschedd
	go build -tags grpcnotrace -o $(BIN)-full ./cmd/mcpschedd
	go build -o $(dir $(BIN)) ./cmd/mcpschedd-small ./cmd/mcpschedd-guard

demo: build ## a short agent session, direct and through the proxy
	$(BIN) demo

# make check vets the tests. Fewer garbage collections save a fifth of the processor time, which
# the linker spends too, and a program without libc starts in four fifths of the time. The tests
# of valkey wait longest, so they begin first.
GOTEST := GOGC=400 go test -vet=off -p 4

test: programs ## every test
	@$(WITH) $(MAKE) -j2 test-product test-tools

test-product:
	$(GOTEST) ./internal/valkey ./...

test-tools:
	cd tools && $(GOTEST) ./...

# The go command repeats a test whose environment has changed, but not one whose program has. So
# the programs that tests start are in a folder named after their content, which they read from a
# variable, and programs that have not changed stay as old as they are.
WITH = MCPSCHEDD_PROGRAMS=$$(echo $(CURDIR)/bin/test/*)
programs:
	@go build -buildvcs=false -o bin/programs/ ./cmd/... ./internal/mcptest/child
	@dir=bin/test/$$(cat bin/programs/* | cksum | tr ' ' -); test -d $$dir || \
		{ rm -rf bin/test && mkdir bin/test && cp -R bin/programs bin/test/.new && mv bin/test/.new $$dir; }

# A program under the race detector need not wait a second at its end. The detector finds nothing in
# packages that start no goroutines, in code or tests; make soak runs those with it, too.
RACED = $$(grep -rlE '^[[:space:]]+(defer )?go (func|[a-z])|\.Go\(|AfterFunc\(|\.Parallel\(|bubble\.|httptest\.' --include=*.go $(1) | xargs -n 1 dirname | sort -u | sed 's|^|./|')
race: programs ## the tests of all that starts goroutines, with the race detector
	$(WITH) CGO_ENABLED=1 GORACE=atexit_sleep_ms=0 $(GOTEST) -race ./internal/valkey $(call RACED,cmd internal)
	cd tools && $(WITH) CGO_ENABLED=1 GORACE=atexit_sleep_ms=0 $(GOTEST) -race $(call RACED,--exclude-dir=dashboard *)

# A million calls take half an hour, and under the detector longer than all else here.
soak: ## the long randomised runs, and each fuzz target for a minute
	MCPSCHEDD_SOAK=1 CGO_ENABLED=1 go test -race -timeout 4h -skip '^TestChurn$$' ./...
	MCPSCHEDD_SOAK=1 go test -timeout 75m -run '^TestChurn$$' ./cmd/mcpschedd
	MCPSCHEDD_SOAK=1 CGO_ENABLED=1 go test -C tools -race -timeout 60m ./...
	sh tools/fuzz/fuzz.sh 60s

# vet makes the checks of go vet and go fix, from the sources: those commands compile all that is imported, for each
# system, and start anew for each package. Its check of scanners is not among those of Go 1.26.
check: ## of both modules: formatting, vet, fixes, staticcheck, go.mod, import rules, other systems
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }
	go build -C tools -o ../bin/ honnef.co/go/tools/cmd/staticcheck ./vet
	@export GOGC=400 GOFLAGS=-tags=browser; set -ex; for module in . tools; do \
		for system in linux windows darwin; do (cd $$module && GOOS=$$system $(CURDIR)/bin/vet -scannererr=false ./...); done; \
		(cd $$module && $(CURDIR)/bin/staticcheck ./...); \
		go mod tidy -C $$module -diff; \
	done
	go test -run TestLayout .

bench: build ## selection under a budget; calls beside a bare relay, plans beside a client; exit 1 if a target is missed
	go test ./internal/enrich -run NONE -bench Pick
	code=0; for mode in speed plan; do go run -C tools ./bench -bin ../$(BIN) -mode $$mode -check || code=1; done; exit $$code

stall: build ## 20,000 calls of 100 KB: none may stall
	go run -C tools ./bench -bin ../$(BIN) -mode stall -check

conformance: build ## the MCP conformance suites through the proxy (needs npm)
	sh tools/conformance/conformance.sh

clients: build ## real servers and real clients through the proxy (needs npm)
	sh tools/clients/clients.sh

claude: build ## a real Claude Code calls through the proxy and ends it, 20 times on each transport and through connect, confirms plans, and all that passes besides calls (needs npm, 356 MB)
	sh tools/clients/claude.sh

daemon: build ## ten clients of five real servers, direct, through ten proxies and through one daemon (Linux, and what make clients installs)
	sh tools/clients/daemon.sh

fresh: build ## writes and reads through the proxy, real servers and Postgres (needs npm)
	sh tools/fresh/fresh.sh

newuser: build ## a new user's first day: import, five sessions of a real Claude Code, what it saved, and undo (needs npm, and what make clients and make claude install)
	sh tools/newuser/newuser.sh

plan: build ## twelve calls as one plan and one by one, real servers and Postgres (needs npm)
	sh tools/plan/plan.sh

live: build ## recorded sessions against a real server through the proxy: make live TRACE=FILE TRAIN=FILE CLASSES=FILE [CELL=serial/3s]; exit 1 if a target is missed
	@test -n "$(TRACE)" -a -n "$(TRAIN)" -a -n "$(CLASSES)" || { echo 'usage: make live TRACE=FILE TRAIN=FILE CLASSES=FILE [CELL=WORDS]'; exit 2; }
	go run -C tools ./live -bin ../$(BIN) -trace $(abspath $(TRACE)) -train $(abspath $(TRAIN)) -classes $(abspath $(CLASSES)) -cell "$(CELL)"

tpsbench: build ## twenty generated tasks of TPS-Bench's kind over real servers by a scripted model: selections, schedules, prefetch (needs npm, rg): make tpsbench [FLAGS="-model NAME -url URL -max-usd 5"]
	sh tools/tpsbench/tpsbench.sh $(FLAGS)

dashboard: ## the dashboard in a real browser, pictures in results/dashboard (installs chromium where apt-get is)
	sh tools/dashboard/dashboard.sh

man: ## the pages of the manual, in bin/man
	mkdir -p bin/man
	MCPSCHEDD_MAN=$(CURDIR)/bin/man go test -count=1 -run 'TestManual$$' ./cmd/mcpschedd

lines: ## how large each package is, and what of it is hard to read
	@go run -C tools ./lines

release: ## dist/: the commit built for six systems, what each is made of, and SHA256SUMS; the same commit and Go give the same bytes
	rm -rf dist
	go run -C tools ./release -out ../dist

# Keys of _meta and folders have the program's name, not its path, and stay. go.mod is changed last,
# so that an interrupted run can be repeated.
module: ## make module MODULE=github.com/OWNER/mcpschedd: another module path, in both modules
	@case "$(MODULE)" in *.*/*) ;; *) echo 'usage: make module MODULE=github.com/OWNER/mcpschedd'; exit 2;; esac
	go mod edit -module="$(MODULE)" -print >/dev/null
	find . -name '*.go' ! -path '*/testdata/*' -exec perl -pi -e 's#"\Q$(shell go list -m)\E/(cmd|internal|tools)/#"$(MODULE)/$$1/#' {} +
	perl -pi -e 's#^(module|require|replace) \Q$(shell go list -m)\E\b#$$1 $(MODULE)#' tools/go.mod go.mod
	gofmt -w cmd internal tools
	go list -deps -test ./... >/dev/null
	cd tools && go list -deps -test -tags browser ./... >/dev/null

clean:
	rm -rf bin tools/bin dist results
