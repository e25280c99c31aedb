-- Who did what: one chain of entries a tenant, and one of the operator's own acts under the nil tenant. Entries are added and
-- never changed; each holds the hash of the one before (crates/core/src/audit).

-- Where each chain ends. Whoever adds to a chain locks its head, and that last in its transaction.
CREATE TABLE audit_heads (
    tenant_id uuid PRIMARY KEY,
    seq bigint NOT NULL DEFAULT 0,
    hash text,
    at timestamptz NOT NULL DEFAULT now(),
    -- Whose chain goes with it; the operator's stays.
    owner_id uuid GENERATED ALWAYS AS (nullif(tenant_id, '00000000-0000-0000-0000-000000000000')) STORED
        REFERENCES tenants ON DELETE CASCADE,
    CONSTRAINT heads_know_their_hash CHECK ((seq = 0) = (hash IS NULL))
);
CREATE INDEX audit_heads_owner ON audit_heads (owner_id);

CREATE TABLE audit (
    tenant_id uuid NOT NULL REFERENCES audit_heads ON DELETE CASCADE,
    seq bigint NOT NULL CHECK (seq > 0),
    audit_id uuid NOT NULL,
    at timestamptz NOT NULL,
    actor json NOT NULL,
    action text NOT NULL,
    target json NOT NULL,
    origin json NOT NULL,
    detail json NOT NULL,
    prev_hash text,
    hash text NOT NULL,
    PRIMARY KEY (tenant_id, seq),
    CONSTRAINT only_the_first_has_none_before CHECK ((seq = 1) = (prev_hash IS NULL))
);
CREATE INDEX audit_actions ON audit (tenant_id, action, seq);
CREATE INDEX audit_targets ON audit (tenant_id, (target ->> 'id'), seq);
CREATE INDEX audit_keys ON audit (tenant_id, (actor ->> 'key_id'), seq);
-- Times rise with the numbers: where a span of time begins and ends.
CREATE INDEX audit_times ON audit (tenant_id, at, seq);

-- An owner who is no superuser sees no row of a table whose row-level security is forced.
ALTER TABLE tenants NO FORCE ROW LEVEL SECURITY;
INSERT INTO audit_heads (tenant_id) SELECT tenant_id FROM tenants
UNION ALL SELECT '00000000-0000-0000-0000-000000000000';
ALTER TABLE tenants FORCE ROW LEVEL SECURITY;

-- Entries stay as they are, whoever asks. They go with their chain, and a chain goes with its tenant.
CREATE FUNCTION audit_stays() RETURNS trigger
LANGUAGE plpgsql
SET search_path = public, pg_temp
AS $$
BEGIN
    IF TG_OP = 'DELETE' AND NOT EXISTS (SELECT FROM audit_heads WHERE tenant_id = OLD.tenant_id) THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'audit entries are never changed (%)', TG_OP;
END
$$;
CREATE TRIGGER audit_stays BEFORE UPDATE OR DELETE ON audit FOR EACH ROW EXECUTE FUNCTION audit_stays();
CREATE TRIGGER audit_is_not_emptied BEFORE TRUNCATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION audit_stays();

-- Heads go forward only.
CREATE FUNCTION audit_goes_on() RETURNS trigger
LANGUAGE plpgsql
SET search_path = public, pg_temp
AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.seq > OLD.seq AND NEW.tenant_id = OLD.tenant_id THEN
        RETURN NEW;
    END IF;
    IF TG_OP = 'DELETE' AND OLD.owner_id IS NOT NULL AND NOT EXISTS (SELECT FROM tenants WHERE tenant_id = OLD.owner_id) THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'the audit goes forward only (%)', TG_OP;
END
$$;
CREATE TRIGGER audit_goes_on BEFORE UPDATE OR DELETE ON audit_heads FOR EACH ROW EXECUTE FUNCTION audit_goes_on();
CREATE TRIGGER audit_heads_are_not_emptied BEFORE TRUNCATE ON audit_heads
    FOR EACH STATEMENT EXECUTE FUNCTION audit_goes_on();

DO $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['audit', 'audit_heads'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY own_tenant ON %I TO answerable_app USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant())', t);
        EXECUTE format('CREATE POLICY every_tenant ON %I TO answerable_system USING (true) WITH CHECK (true)', t);
        EXECUTE format('GRANT SELECT, INSERT ON %I TO answerable_app, answerable_system', t);
    END LOOP;
END
$$;
GRANT UPDATE (seq, hash, at) ON audit_heads TO answerable_app, answerable_system;
