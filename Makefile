BIN := bin/mcpschedd

.PHONY: build demo test soak check bench stall conformance clients fresh plan dashboard lines clean

build: ## the program, in bin/, and beside it the small one that runs as its guard; the tag leaves out a debugging page that nobody serves, and 3 MiB with it
	go build -tags grpcnotrace -o $(BIN) ./cmd/mcpschedd
	go build -o $(dir $(BIN)) ./cmd/mcpschedd-small

demo: build ## a short agent session, direct and through the proxy
	$(BIN) demo

test: ## some three minutes on two cores: everything with the race detector, and without it what it switches off
	go test -race ./...
	go test ./internal/jsonrpc ./cmd/...
	go test -C tools -race ./...

soak: ## the long randomised runs, and each fuzz target for a minute
	MCPSCHEDD_SOAK=1 go test -race -timeout 60m ./...
	MCPSCHEDD_SOAK=1 go test -C tools -race -timeout 60m ./...
	sh tools/fuzz/fuzz.sh 60s

check: ## of both modules: formatting, vet, staticcheck, fixes, go.mod, import rules, other systems
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }
	go build -C tools -o ../bin/staticcheck honnef.co/go/tools/cmd/staticcheck
	@set -ex; for module in . tools; do \
		for system in linux windows darwin; do GOOS=$$system go vet -C $$module ./...; done; \
		(cd $$module && $(CURDIR)/bin/staticcheck ./...); \
		go fix -C $$module -diff ./...; \
		go mod tidy -C $$module -diff; \
	done
	go vet -C tools -tags browser ./dashboard
	cd tools && ../bin/staticcheck -tags browser ./dashboard
	go test -run TestLayout .

bench: build ## tables of the schedulers; calls beside a bare relay, plans beside a client; exit 1 if a target is missed
	go test ./internal/schedule -run NONE -bench 'Policies|Orders|Select'
	code=0; for mode in speed plan; do go run -C tools ./bench -bin ../$(BIN) -mode $$mode -check || code=1; done; exit $$code

stall: build ## 20,000 calls of 100 KB: none may stall
	go run -C tools ./bench -bin ../$(BIN) -mode stall -check

conformance: build ## the MCP conformance suites through the proxy (needs npm)
	sh tools/conformance/conformance.sh

clients: build ## real servers and real clients through the proxy (needs npm)
	sh tools/clients/clients.sh

fresh: build ## writes and reads through the proxy, real servers and Postgres (needs npm)
	sh tools/fresh/fresh.sh

plan: build ## twelve calls as one plan and one by one, real servers and Postgres (needs npm)
	sh tools/plan/plan.sh

dashboard: ## the dashboard in a real browser, pictures in results/dashboard (installs chromium where apt-get is)
	sh tools/dashboard/dashboard.sh

lines: ## how large each package is, and what of it is hard to read
	@go run -C tools ./lines

clean:
	rm -rf bin results
