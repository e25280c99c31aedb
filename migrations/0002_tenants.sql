-- Tenants, their keys and their own settings.

CREATE TABLE tenants (
    tenant_id uuid PRIMARY KEY,
    name text NOT NULL,
    quotas jsonb NOT NULL DEFAULT '{}',
    -- Columns of quotas that claiming reads.
    max_concurrent_runs integer GENERATED ALWAYS AS ((quotas ->> 'max_concurrent_runs')::integer) STORED,
    weight double precision GENERATED ALWAYS AS (greatest(coalesce((quotas ->> 'weight')::double precision, 1), 0.001)) STORED,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE api_keys (
    tenant_id uuid NOT NULL REFERENCES tenants ON DELETE CASCADE,
    key_id uuid NOT NULL,
    name text NOT NULL,
    -- SHA-256 of a 256-bit secret: nothing to guess, so nothing slow is needed.
    secret_hash bytea NOT NULL CHECK (octet_length(secret_hash) = 32),
    scopes text[] NOT NULL,
    expires_at timestamptz,
    last_used_at timestamptz,
    revoked_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, key_id)
);
CREATE UNIQUE INDEX api_keys_by_id ON api_keys (key_id);

CREATE TABLE providers (
    tenant_id uuid NOT NULL REFERENCES tenants ON DELETE CASCADE,
    name text NOT NULL,
    kind text NOT NULL,
    base_url text NOT NULL,
    -- {api_key, headers}, sealed; null where there is neither.
    sealed bytea,
    has_api_key boolean NOT NULL,
    header_names text[] NOT NULL,
    prices json NOT NULL,
    options json NOT NULL,
    script json NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, name)
);

CREATE TABLE secrets (
    tenant_id uuid NOT NULL REFERENCES tenants ON DELETE CASCADE,
    name text NOT NULL,
    version integer NOT NULL,
    sealed bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, name)
);

-- Signs what tools are sent; the one before stays valid until valid_until.
CREATE TABLE signing_secrets (
    tenant_id uuid NOT NULL REFERENCES tenants ON DELETE CASCADE,
    version integer NOT NULL,
    sealed bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    valid_until timestamptz,
    PRIMARY KEY (tenant_id, version)
);

CREATE TABLE tenant_policies (
    tenant_id uuid PRIMARY KEY REFERENCES tenants ON DELETE CASCADE,
    version integer NOT NULL,
    policy json NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now()
);

-- What agents are, by content: an inline agent and a stored one that are alike share a row.
CREATE TABLE agent_specs (
    tenant_id uuid NOT NULL REFERENCES tenants ON DELETE CASCADE,
    spec_hash text NOT NULL,
    spec json NOT NULL,
    PRIMARY KEY (tenant_id, spec_hash)
);

CREATE SEQUENCE agents_ord;
CREATE TABLE agents (
    tenant_id uuid NOT NULL REFERENCES tenants ON DELETE CASCADE,
    agent_id uuid NOT NULL,
    ord bigint NOT NULL DEFAULT nextval('agents_ord'),
    version integer NOT NULL CHECK (version > 0),
    created_at timestamptz NOT NULL DEFAULT now(),
    archived_at timestamptz,
    PRIMARY KEY (tenant_id, agent_id)
);
CREATE INDEX agents_newest ON agents (tenant_id, ord DESC);

CREATE TABLE agent_versions (
    tenant_id uuid NOT NULL,
    agent_id uuid NOT NULL,
    version integer NOT NULL,
    spec_hash text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, agent_id, version),
    FOREIGN KEY (tenant_id, agent_id) REFERENCES agents ON DELETE CASCADE,
    FOREIGN KEY (tenant_id, spec_hash) REFERENCES agent_specs
);

-- First answers to requests with an Idempotency-Key. The row is made first and in the request's own transaction, so a
-- second request waits on it. The operator's rows have the nil tenant.
CREATE TABLE idempotency_keys (
    tenant_id uuid NOT NULL,
    route text NOT NULL,
    key text NOT NULL,
    request_hash bytea NOT NULL,
    status smallint,
    headers json,
    body text,
    run_id uuid,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, route, key)
);
CREATE INDEX idempotency_keys_oldest ON idempotency_keys (created_at);
