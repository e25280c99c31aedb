-- What a service needs to forget: runs with all that belongs to them, journals, deliveries.

-- Ledger entries may outlive their run as bare facts, without a run: those of writes with a business key, so that the key
-- stays taken, and those that a run which stands on the deleted one may still take. Nothing is sent twice. The foreign key
-- to runs holds for all others. Rows that stand here already have a run: nothing to look through under the lock.
ALTER TABLE ledger ALTER COLUMN run_id DROP NOT NULL;
ALTER TABLE ledger ADD CONSTRAINT bare_facts_are_closed_writes
    CHECK (run_id IS NOT NULL OR (writes AND status <> 'started')) NOT VALID;

-- What a run used of something by itself: what it brought along is on the bill of the run that it stands on.
CREATE FUNCTION used_by_itself(state json, what text) RETURNS numeric
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT coalesce((state #>> ARRAY['used', what])::numeric, 0)
        - coalesce((state #>> ARRAY['inherited', 'used', what])::numeric, 0)
$$;

-- What runs used that are gone, one row each, without saying which: usage may be asked for from any moment to any other.
CREATE SEQUENCE past_usage_ord;
CREATE TABLE past_usage (
    tenant_id uuid NOT NULL REFERENCES tenants ON DELETE CASCADE,
    -- When the run was created.
    created_at timestamptz NOT NULL,
    ord bigint NOT NULL DEFAULT nextval('past_usage_ord'),
    agent_id uuid,
    steps numeric NOT NULL,
    tool_calls numeric NOT NULL,
    input_tokens numeric NOT NULL,
    output_tokens numeric NOT NULL,
    cost_microusd numeric NOT NULL,
    -- [{name, steps, tool_calls, input_tokens, output_tokens, cost_microusd}], by PROVIDER/MODEL.
    models jsonb NOT NULL,
    PRIMARY KEY (tenant_id, created_at, ord)
);
ALTER TABLE past_usage ENABLE ROW LEVEL SECURITY;
ALTER TABLE past_usage FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON past_usage TO answerable_app
    USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, DELETE ON past_usage TO answerable_app;
GRANT USAGE ON SEQUENCE past_usage_ord TO answerable_app;

-- Runs that are old enough; runs of a week, and whether all of them have ended.
CREATE INDEX runs_ended ON runs (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX runs_by_week ON runs (run_id, finished_at);
-- What belongs to a run and stands elsewhere.
CREATE INDEX deliveries_of_run ON deliveries (tenant_id, run_id) WHERE run_id IS NOT NULL;
CREATE INDEX deliveries_settled ON deliveries (created_at) WHERE status <> 'pending';
CREATE INDEX idempotency_keys_of_run ON idempotency_keys (tenant_id, run_id) WHERE run_id IS NOT NULL;
CREATE INDEX grants_of_run ON grants (tenant_id, scope_id) WHERE scope = 'run';

-- Pruning crosses tenants. Of the journal it may see whose a row is and take it away, never what is in it.
GRANT DELETE ON deliveries TO answerable_system;
CREATE POLICY every_tenant ON journal TO answerable_system USING (true);
GRANT SELECT (tenant_id, run_id), DELETE ON journal TO answerable_system;
-- And which run stands on which.
CREATE POLICY every_tenant ON run_lineage TO answerable_system USING (true);
GRANT SELECT (tenant_id, run_id, ancestor_id) ON run_lineage TO answerable_system;

-- Whether a run has ended, nobody has its lease for late calls, and no run that stands on it lives. As whoever asks.
CREATE FUNCTION run_can_go(p_tenant uuid, p_run uuid) RETURNS boolean
LANGUAGE sql STABLE
AS $$
    SELECT NOT EXISTS (SELECT FROM run_queue q WHERE q.tenant_id = p_tenant AND q.run_id = p_run)
        AND NOT EXISTS (
            SELECT FROM run_lineage l JOIN run_queue q ON q.tenant_id = l.tenant_id AND q.run_id = l.run_id AND NOT q.ended
            WHERE l.tenant_id = p_tenant AND l.ancestor_id = p_run)
$$;

-- The weekly partitions, and the run ids that each holds: from `low` to before `high`.
CREATE FUNCTION partition_spans() RETURNS TABLE (parent text, part text, low uuid, high uuid)
LANGUAGE sql STABLE
AS $$
    SELECT p.relname::text, c.relname::text, span.bounds[1]::uuid, span.bounds[2]::uuid
    FROM pg_inherits i
    JOIN pg_class p ON p.oid = i.inhparent
    JOIN pg_class c ON c.oid = i.inhrelid
    CROSS JOIN LATERAL regexp_match(pg_get_expr(c.relpartbound, c.oid),
        'FROM \(''([0-9a-f-]{36})''\) TO \(''([0-9a-f-]{36})''\)') AS span(bounds)
    WHERE p.oid IN ('public.events'::regclass, 'public.journal'::regclass) AND span.bounds IS NOT NULL
$$;

-- Drops one of them, as the role that owns it. Short, but nobody may write meanwhile: the caller sets lock_timeout.
CREATE FUNCTION drop_partition(name text) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM partition_spans() WHERE part = name) THEN
        RAISE EXCEPTION '% is no partition of events or journal', name;
    END IF;
    EXECUTE format('DROP TABLE public.%I', name);
END
$$;
REVOKE ALL ON FUNCTION drop_partition(text) FROM PUBLIC;
