# The common tasks. Each sets up what it needs; all respect CARGO_TARGET_DIR.
.DEFAULT_GOAL := help
.PHONY: help demo rolling test evals check fmt lint edges sqlx conform chaos mutants deploy-check otlp spans fuzz schemathesis deny sbom load

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-18s %s\n", $$1, $$2}'

demo: ## Set up, build and run the order desk: the main job from end to end
	@scripts/demo.sh

test: ## Set up, build and run the whole test suite
	@scripts/test.sh

evals: ## Play our own eval cases on a server of their own
	@scripts/evals.sh

check: ## Formatting, lints and the edges between crates, as CI judges them
	@scripts/check.sh

fmt: ## Format the code
	@cargo fmt --all

lint: ## Run clippy, warnings are errors
	@SQLX_OFFLINE=true cargo clippy --locked --workspace --all-targets -- -D warnings

edges: ## Check which crate may use which
	@scripts/edges.py

rolling: ## Let servers of an older version and of this one share a database
	@scripts/rolling.sh

sqlx: ## Check the queries against the migrations again and refresh .sqlx
	@scripts/sqlx-check.sh --write

conform: ## Play the conformance cases listed in tests/conform.list (CONFORM=folder of conform.py)
	@scripts/conform.sh $(CONFORM)

chaos: ## Servers under every fault, judged by an outside witness (CHAOS_SECONDS=600, CHAOS_SEED, CHAOS_ONLY, CHAOS_DIR)
	@scripts/chaos.sh

fuzz: ## Fuzz every parser of outside input, each for a while (FUZZ_SECONDS=20, FUZZ_TARGETS)
	@scripts/fuzz.sh $(or $(FUZZ_SECONDS),20) $(FUZZ_TARGETS)

schemathesis: ## Ask a server all that schemathesis makes of openapi.yaml (EXAMPLES=60 of each operation)
	@scripts/schemathesis.sh $(or $(EXAMPLES),60)

deny: ## Licences, bans and sources of dependencies; with ADVISORIES=1 also RustSec's advisories
	@scripts/deny.sh

sbom: ## Write the program's bill of materials, CycloneDX (SBOM=file)
	@scripts/sbom.sh $(SBOM)

load: ## Real servers under load, released builds: is every tenant's new run started in time (LOAD="streams --help")
	@scripts/load.sh $(LOAD)

mutants: ## Leave out each guard in turn: the judge must notice (MUTANT=one guard)
	@scripts/mutants.sh $(if $(MUTANT),--only $(MUTANT))

deploy-check: ## Check compose file, Prometheus, alerts and dashboards with their own tools
	@scripts/deploy-check.sh

otlp: ## Let real receivers judge exported spans and metrics (ONLY=receivers, or ONLY=phoenix: installs 900 MB once)
	@scripts/otlp.sh $(ONLY)

spans: ## A hundred kills under load: a collector gets the spans that the journals imply
	@scripts/spans.sh
