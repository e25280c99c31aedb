-- Schedules: runs that are started again and again, and what became of each time that one was due.

-- Schedules refer to tenants.
SELECT lock_tables('SHARE ROW EXCLUSIVE', 'tenants');
CREATE SEQUENCE schedules_ord;
CREATE TABLE schedules (
    tenant_id uuid NOT NULL REFERENCES tenants ON DELETE CASCADE,
    schedule_id uuid NOT NULL,
    ord bigint NOT NULL DEFAULT nextval('schedules_ord'),
    name text NOT NULL,
    cron text NOT NULL,
    timezone text NOT NULL,
    -- The body of the request that each of its runs is.
    run json NOT NULL,
    skip_if_running boolean NOT NULL,
    metadata jsonb NOT NULL,
    -- Who made it, and who changed last what it does.
    created_by text NOT NULL,
    updated_by text NOT NULL,
    -- In whose name its runs are started, all who count as having started them, and whether the limits of the agent may be
    -- raised so.
    asker text NOT NULL,
    creators text[] NOT NULL,
    as_admin boolean NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    paused_at timestamptz,
    -- Due then; null: never again. It stays as it is while the schedule is paused.
    next_at timestamptz,
    -- Since when it is known to be due then. Who is seen in time is late by no fault of its own.
    seen_at timestamptz,
    -- Nothing up to then is due any more, even if a clock is put back.
    dealt_until timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, schedule_id)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX schedules_newest ON schedules (tenant_id, ord DESC);
CREATE INDEX schedules_due ON schedules (next_at) WHERE paused_at IS NULL AND next_at IS NOT NULL;

CREATE SEQUENCE schedule_firings_ord;
CREATE TABLE schedule_firings (
    tenant_id uuid NOT NULL,
    schedule_id uuid NOT NULL,
    ord bigint NOT NULL DEFAULT nextval('schedule_firings_ord'),
    due_at timestamptz NOT NULL,
    fired_at timestamptz NOT NULL,
    outcome text NOT NULL CHECK (outcome IN ('started', 'skipped', 'missed', 'refused')),
    -- Who fired it out of its time.
    triggered_by text,
    -- Null also when the run was deleted.
    run_id uuid,
    problem json,
    PRIMARY KEY (tenant_id, schedule_id, ord),
    FOREIGN KEY (tenant_id, schedule_id) REFERENCES schedules ON DELETE CASCADE,
    CONSTRAINT only_started_ones_have_runs CHECK (outcome = 'started' OR run_id IS NULL),
    CONSTRAINT refused_ones_say_why CHECK ((outcome = 'refused') = (problem IS NOT NULL))
);
-- A due time is dealt with once, whatever else goes wrong.
CREATE UNIQUE INDEX schedule_firings_once ON schedule_firings (tenant_id, schedule_id, due_at) WHERE triggered_by IS NULL;
CREATE INDEX schedule_firings_by_run ON schedule_firings (tenant_id, run_id) WHERE run_id IS NOT NULL;

DO $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['schedules', 'schedule_firings'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY own_tenant ON %I TO answerable_app USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant())', t);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO answerable_app', t);
    END LOOP;
END
$$;
GRANT USAGE ON SEQUENCE schedules_ord, schedule_firings_ord TO answerable_app;
-- What is due is found across tenants: whose and when, never what.
CREATE POLICY every_tenant ON schedules TO answerable_system USING (true) WITH CHECK (true);
GRANT SELECT (tenant_id, schedule_id, next_at, paused_at, seen_at), UPDATE (seen_at) ON schedules TO answerable_system;
