-- Webhooks: a second live secret after a rotation, why one is switched off, and how its endpoint is, so that whoever doesn't
-- answer keeps nobody else waiting.

-- The secret before the newest signs beside it until then.
ALTER TABLE webhooks ADD COLUMN sealed_before bytea;
ALTER TABLE webhooks ADD COLUMN before_until timestamptz;
ALTER TABLE webhooks ADD CONSTRAINT earlier_secrets_end CHECK ((sealed_before IS NULL) = (before_until IS NULL));

-- Null in a webhook that is off: an older server switched it off, because its endpoint was gone.
ALTER TABLE webhooks ADD COLUMN disabled_reason text CHECK (disabled_reason IN ('gone', 'requested'));

-- One of the two as soon as it was tried: its last try arrived, or failed. Since when that is so.
ALTER TABLE webhooks ADD COLUMN answers_since timestamptz;
ALTER TABLE webhooks ADD COLUMN failing_since timestamptz;
ALTER TABLE webhooks ADD CONSTRAINT it_answers_or_fails CHECK (answers_since IS NULL OR failing_since IS NULL);
-- When it failed last, while it fails: whoever failed longest ago has the next turn.
ALTER TABLE webhooks ADD COLUMN failed_at timestamptz;
ALTER TABLE webhooks ADD CONSTRAINT what_fails_failed CHECK ((failing_since IS NULL) = (failed_at IS NULL));
-- It asked to be left alone until then.
ALTER TABLE webhooks ADD COLUMN resting_until timestamptz;

-- Tries since it was queued, or queued again; `attempts` tells of the earlier ones too.
ALTER TABLE deliveries ADD COLUMN tries integer NOT NULL DEFAULT 0;
-- An owner who is no superuser sees no row of a table whose row-level security is forced.
ALTER TABLE deliveries NO FORCE ROW LEVEL SECURITY;
UPDATE deliveries SET tries = jsonb_array_length(attempts) WHERE status = 'pending' AND attempts <> '[]';
ALTER TABLE deliveries FORCE ROW LEVEL SECURITY;

-- A delivery has its time from then on. Those of before begin anew.
ALTER TABLE deliveries ADD COLUMN queued_at timestamptz NOT NULL DEFAULT now();

-- Those that later ones of their run wait for.
CREATE INDEX deliveries_ahead ON deliveries (tenant_id, webhook_id, run_id, ord) WHERE status = 'pending' AND tries < 3;
DROP INDEX deliveries_untried;

-- What a tenant looks for among many that arrived.
CREATE INDEX deliveries_failed ON deliveries (tenant_id, webhook_id, ord DESC) WHERE status = 'failed';
