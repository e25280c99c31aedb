-- Runs that calls of other runs began. Each has the UUID of its call.

CREATE TABLE children (
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    -- The run that called it; null once that is deleted.
    parent_run_id uuid,
    -- Its id is its call's, which may be days older.
    began_at timestamptz NOT NULL DEFAULT now(),
    -- Its parent wants its end, since then and for this reason; and since when the run has been told so.
    stop_at timestamptz,
    stop_reason text,
    stopped_at timestamptz,
    -- It has ended; and since when its parent, or the ledger alone, has been told so.
    ended_at timestamptz,
    told_at timestamptz,
    PRIMARY KEY (tenant_id, run_id),
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs ON DELETE CASCADE
) WITH (fillfactor = 80);
CREATE INDEX children_of_run ON children (tenant_id, parent_run_id);
CREATE INDEX children_by_time ON children (tenant_id, began_at);
-- What is still to be told: short lists, whoever left them.
CREATE INDEX children_to_stop ON children (stop_at) WHERE stop_at IS NOT NULL AND stopped_at IS NULL;
CREATE INDEX children_to_tell ON children (ended_at) WHERE ended_at IS NOT NULL AND told_at IS NULL;

ALTER TABLE children ENABLE ROW LEVEL SECURITY;
ALTER TABLE children FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON children TO answerable_app
    USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, UPDATE, DELETE ON children TO answerable_app;
-- Servers look for what others left untold, and pruning for what may go.
CREATE POLICY every_tenant ON children TO answerable_system USING (true);
GRANT SELECT ON children TO answerable_system;

-- As before, less what the runs used that its calls began: that is on their own bill.
CREATE OR REPLACE FUNCTION used_by_itself(state json, what text) RETURNS numeric
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT coalesce((state #>> ARRAY['used', what])::numeric, 0)
        - coalesce((state #>> ARRAY['inherited', 'used', what])::numeric, 0)
        - coalesce((state #>> ARRAY['by_children', what])::numeric, 0)
$$;

-- As before; and no run goes before those that it called have ended, nor before whoever called it knows how it ended.
CREATE OR REPLACE FUNCTION run_can_go(p_tenant uuid, p_run uuid) RETURNS boolean
LANGUAGE sql STABLE
AS $$
    SELECT NOT EXISTS (SELECT FROM run_queue q WHERE q.tenant_id = p_tenant AND q.run_id = p_run)
        AND NOT EXISTS (
            SELECT FROM run_lineage l JOIN run_queue q ON q.tenant_id = l.tenant_id AND q.run_id = l.run_id AND NOT q.ended
            WHERE l.tenant_id = p_tenant AND l.ancestor_id = p_run)
        AND NOT EXISTS (
            SELECT FROM children c JOIN run_queue q ON q.tenant_id = c.tenant_id AND q.run_id = c.run_id
            WHERE c.tenant_id = p_tenant AND c.parent_run_id = p_run)
        AND NOT EXISTS (
            SELECT FROM children c WHERE c.tenant_id = p_tenant AND c.run_id = p_run AND c.told_at IS NULL)
$$;

-- As before, but the files of a run that another one called are that one's.
CREATE OR REPLACE FUNCTION workspace_is_somebodys(p_tenant uuid, p_workspace uuid) RETURNS boolean
LANGUAGE sql STABLE
AS $$
    SELECT EXISTS (SELECT FROM threads t WHERE t.tenant_id = p_tenant AND t.workspace_id = p_workspace AND t.deleted_at IS NULL)
        OR (EXISTS (
                SELECT FROM runs r WHERE r.tenant_id = p_tenant AND r.workspace_id = p_workspace
                AND NOT EXISTS (SELECT FROM children c WHERE c.tenant_id = r.tenant_id AND c.run_id = r.run_id))
            AND NOT EXISTS (SELECT FROM threads t WHERE t.tenant_id = p_tenant AND t.workspace_id = p_workspace))
$$;
