-- Row-level security, on and forced for every table that has a tenant.

DO $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY ARRAY[
        'tenants', 'api_keys', 'providers', 'secrets', 'signing_secrets', 'tenant_policies', 'agent_specs', 'agents',
        'agent_versions', 'idempotency_keys', 'threads', 'runs', 'run_states', 'run_queue', 'inbox', 'messages', 'steps',
        'calls', 'ledger', 'approvals', 'grants', 'artifacts', 'checkpoints', 'events', 'journal', 'webhooks', 'deliveries'
    ] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY own_tenant ON %I TO answerable_app USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant())', t);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO answerable_app', t);
    END LOOP;
    -- Partitions are reached through their parents, which carry the policies; alone they are nobody's.
    FOREACH t IN ARRAY ARRAY['events_default', 'journal_default'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
    END LOOP;
    -- Work across tenants touches these and no others.
    FOREACH t IN ARRAY ARRAY[
        'tenants', 'api_keys', 'idempotency_keys', 'run_states', 'run_queue', 'webhooks', 'deliveries', 'runs', 'approvals'
    ] LOOP
        EXECUTE format('CREATE POLICY every_tenant ON %I TO answerable_system USING (true) WITH CHECK (true)', t);
    END LOOP;
END
$$;

GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO answerable_app, answerable_system;
GRANT SELECT, INSERT, UPDATE, DELETE ON tenants, api_keys, idempotency_keys TO answerable_system;
GRANT SELECT, UPDATE ON run_queue, run_states, webhooks, deliveries TO answerable_system;
GRANT SELECT ON runs, approvals TO answerable_system;

-- A run's own way to its tenant, for links that carry no key: what it is, never what is in it.
REVOKE ALL ON FUNCTION make_partitions(integer) FROM PUBLIC;
