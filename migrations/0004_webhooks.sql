-- Where tenants hear of their runs, and what is on its way to them.

CREATE SEQUENCE webhooks_ord;
CREATE TABLE webhooks (
    tenant_id uuid NOT NULL REFERENCES tenants ON DELETE CASCADE,
    webhook_id uuid NOT NULL,
    ord bigint NOT NULL DEFAULT nextval('webhooks_ord'),
    url text NOT NULL,
    events text[] NOT NULL,
    description text,
    include_input boolean NOT NULL DEFAULT false,
    sealed bytea NOT NULL,
    disabled_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, webhook_id)
);

-- The outbox: made in the run's own transaction, sent at least once.
CREATE SEQUENCE deliveries_ord;
CREATE TABLE deliveries (
    tenant_id uuid NOT NULL,
    delivery_id uuid NOT NULL,
    ord bigint NOT NULL DEFAULT nextval('deliveries_ord'),
    webhook_id uuid NOT NULL,
    run_id uuid,
    type text NOT NULL,
    -- The exact bytes, so that every try is the same.
    body text NOT NULL,
    status text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'delivered', 'failed')),
    attempts jsonb NOT NULL DEFAULT '[]',
    next_attempt_at timestamptz,
    lease_until timestamptz,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, delivery_id),
    FOREIGN KEY (tenant_id, webhook_id) REFERENCES webhooks ON DELETE CASCADE,
    CONSTRAINT pending_deliveries_are_due CHECK ((status = 'pending') = (next_attempt_at IS NOT NULL))
) WITH (fillfactor = 70);
CREATE INDEX deliveries_due ON deliveries (next_attempt_at) WHERE status = 'pending';
CREATE INDEX deliveries_waiting ON deliveries (tenant_id, webhook_id, next_attempt_at, ord) WHERE status = 'pending';
CREATE INDEX deliveries_untried ON deliveries (tenant_id, webhook_id, run_id, ord) WHERE status = 'pending' AND attempts = '[]';
CREATE INDEX deliveries_out ON deliveries (lease_until) WHERE status = 'pending' AND lease_until IS NOT NULL;
CREATE INDEX deliveries_of_webhook ON deliveries (tenant_id, webhook_id, ord DESC);

-- Whether an endpoint that asks for `patterns` hears of an event: exact, `prefix.*` or `*`.
CREATE FUNCTION webhook_hears(patterns text[], event_type text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT EXISTS (
        SELECT FROM unnest(patterns) AS pattern
        WHERE pattern = event_type OR pattern = '*'
           OR (right(pattern, 2) = '.*' AND starts_with(event_type, left(pattern, -1)))
    )
$$;
