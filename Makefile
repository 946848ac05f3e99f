BIN := bin/mcpschedd

.PHONY: build demo test soak check bench stall conformance clients fresh plan dashboard clean

build: ## the program, in bin/; the tag leaves out a debugging page that nobody serves, and 3 MiB with it
	go build -tags grpcnotrace -o $(BIN) ./cmd/mcpschedd

demo: build ## a short agent session, direct and through the proxy
	$(BIN) demo

test: ## some three minutes on two cores: everything with the race detector, and without it what it switches off
	go test -race ./...
	go test ./internal/jsonrpc ./cmd/...

soak: ## the long randomised runs, and each fuzz target for a minute
	MCPSCHEDD_SOAK=1 go test -race -timeout 60m ./...
	sh scripts/fuzz.sh 60s

check: ## formatting, vet, staticcheck, fixes, import rules, other systems
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }
	go vet ./...
	GOOS=windows go vet ./...
	GOOS=darwin go vet ./...
	go tool staticcheck ./...
	go tool staticcheck -tags browser ./internal/dashboard
	@test -z "$$(go fix -diff ./...)" || { go fix -diff ./...; exit 1; }
	go test -run TestLayout .

bench: build ## tables of the schedulers; calls beside a bare relay, plans beside a client; exit 1 if a target is missed
	go test ./internal/schedule -run NONE -bench 'Policies|Orders|Select'
	code=0; for mode in speed plan; do go run ./internal/bench -bin $(BIN) -mode $$mode -check || code=1; done; exit $$code

stall: build ## 20,000 calls of 100 KB: none may stall
	go run ./internal/bench -bin $(BIN) -mode stall -check

conformance: build ## the MCP conformance suites through the proxy (needs npm)
	sh scripts/conformance.sh

clients: build ## real servers and real clients through the proxy (needs npm)
	sh scripts/clients.sh

fresh: build ## writes and reads through the proxy, real servers and Postgres (needs npm)
	sh scripts/fresh.sh

plan: build ## twelve calls as one plan and one by one, real servers and Postgres (needs npm)
	sh scripts/plan.sh

dashboard: ## the dashboard in a real browser, pictures in results/dashboard (installs chromium where apt-get is)
	sh scripts/dashboard.sh

clean:
	rm -rf bin results
