-- MCP servers of tenants, and the tools that runs were told of by them.

CREATE TABLE mcp_servers (
    tenant_id uuid NOT NULL REFERENCES tenants ON DELETE CASCADE,
    name text NOT NULL,
    -- An address, or a command that the operator's configuration names.
    url text,
    stdio text,
    -- {headers}, sealed; null where there are none.
    sealed bytea,
    header_names text[] NOT NULL,
    timeout_ms bigint NOT NULL,
    -- Changes whenever it is stored: sessions under another one are closed.
    version uuid NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, name),
    CHECK (num_nonnulls(url, stdio) = 1)
);

-- The newest list of each run whose agent takes tools from MCP servers; the journal has all of them.
CREATE TABLE run_tools (
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    hash text NOT NULL,
    -- ToolSpecs, in order.
    tools json NOT NULL,
    PRIMARY KEY (tenant_id, run_id),
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs ON DELETE CASCADE
);

DO $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['mcp_servers', 'run_tools'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY own_tenant ON %I TO answerable_app USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant())', t);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO answerable_app', t);
    END LOOP;
END
$$;
