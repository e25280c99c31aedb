-- What a claim looks at: runs that are due, and of these no more than it may take. What holds a run back is written down with
-- the run, so that a claim costs what it takes, however much waits.

SELECT lock_tables('ACCESS EXCLUSIVE', 'run_queue');
-- 0: not due. 1: due, if its tenant has a place for it. 2: pressing, which needs no place: it was cancelled, or its time is over.
ALTER TABLE run_queue ADD COLUMN due smallint NOT NULL DEFAULT 0;
-- `due` rises then by itself; null: not by time.
ALTER TABLE run_queue ADD COLUMN ripe_at timestamptz;
-- Nothing stands before it in its thread, and under its concurrency key. Once so, always so: what comes later stands behind it.
ALTER TABLE run_queue ADD COLUMN first_in_line boolean NOT NULL DEFAULT false;
-- The run right before it, if one was seen. Null with first_in_line false: nobody has looked yet.
ALTER TABLE run_queue ADD COLUMN behind uuid;

-- Said at every write, by whomever: a server that knows nothing of this writes it, too.
CREATE FUNCTION run_queue_due() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    IF NEW.started OR (NEW.thread_id IS NULL AND NEW.concurrency_key IS NULL) THEN
        NEW.first_in_line := true;
    END IF;
    NEW.due := 0;
    NEW.ripe_at := NULL;
    IF NEW.lease_owner IS NOT NULL OR NEW.ended THEN
        NULL;
    ELSIF NEW.urgent THEN
        NEW.due := 2;
    ELSIF NEW.wake_at > clock_timestamp() THEN
        NEW.ripe_at := NEW.wake_at;
    ELSIF NEW.wake_at IS NOT NULL THEN
        IF NEW.expires_at <= clock_timestamp() THEN
            NEW.due := 2;
        ELSE
            NEW.due := NEW.first_in_line::integer;
            NEW.ripe_at := NEW.expires_at;
        END IF;
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER run_queue_due
    BEFORE INSERT OR UPDATE OF lease_owner, wake_at, expires_at, urgent, started, ended, first_in_line, behind, due ON run_queue
    FOR EACH ROW EXECUTE FUNCTION run_queue_due();

-- The run before it is over: somebody has to look what is before it now.
CREATE FUNCTION run_queue_step_up() RETURNS trigger
LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
BEGIN
    UPDATE run_queue SET behind = NULL WHERE tenant_id = OLD.tenant_id AND behind = OLD.run_id;
    RETURN NULL;
END
$$;
CREATE TRIGGER run_queue_left AFTER DELETE ON run_queue FOR EACH ROW
    WHEN (NOT OLD.ended AND (OLD.thread_id IS NOT NULL OR OLD.concurrency_key IS NOT NULL))
    EXECUTE FUNCTION run_queue_step_up();
CREATE TRIGGER run_queue_ended AFTER UPDATE OF ended ON run_queue FOR EACH ROW
    WHEN (NEW.ended AND NOT OLD.ended AND (OLD.thread_id IS NOT NULL OR OLD.concurrency_key IS NOT NULL))
    EXECUTE FUNCTION run_queue_step_up();

-- An owner of the tables who is no superuser sees no row of a table whose row-level security is forced.
ALTER TABLE run_queue NO FORCE ROW LEVEL SECURITY;
UPDATE run_queue SET due = 0;
ALTER TABLE run_queue FORCE ROW LEVEL SECURITY;

-- Of each tenant in the order in which its runs are taken.
CREATE INDEX run_queue_ready ON run_queue (tenant_id, due DESC, priority DESC, wake_at, ord, needs) WHERE due > 0;
CREATE INDEX run_queue_pressing ON run_queue (tenant_id) WHERE due = 2;
CREATE INDEX run_queue_ripe ON run_queue (ripe_at) WHERE ripe_at IS NOT NULL;
CREATE INDEX run_queue_unlooked ON run_queue (ord) WHERE NOT first_in_line AND behind IS NULL;
CREATE INDEX run_queue_behind ON run_queue (tenant_id, behind) WHERE behind IS NOT NULL;
-- Leases are counted by tenant. run_queue_due stays for servers that know nothing of all this.
CREATE INDEX run_queue_held ON run_queue (tenant_id) WHERE lease_owner IS NOT NULL AND NOT ended;

-- Up to `p_most` tenants who have runs that are due and may be given one: those after `p_after`, then from the first one on, so
-- that with more of them each has its turn. Who is suspended, and who has all its places taken and nothing that presses, is
-- passed over. One look a tenant, however many runs it has, and `p_looks` of them at most. `latest` is the last one that was
-- looked at; `around`: none is left that wasn't.
CREATE FUNCTION tenants_due(
    p_after uuid, p_most integer, p_looks integer, p_pressing boolean, OUT tenants uuid[], OUT latest uuid, OUT around boolean
)
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    own record;
    looks integer := 0;
    start uuid := p_after;
    wrapped boolean := false;
BEGIN
    tenants := '{}';
    around := false;
    LOOP
        FOR own IN
            WITH RECURSIVE walk AS (
                SELECT start AS tenant_id, 0::smallint AS due
                UNION ALL
                SELECT n.tenant_id, n.due FROM walk w CROSS JOIN LATERAL (
                    (SELECT q.tenant_id, q.due FROM run_queue q
                     WHERE NOT p_pressing AND q.due > 0 AND q.tenant_id > w.tenant_id
                     ORDER BY q.tenant_id, q.due DESC LIMIT 1)
                    UNION ALL
                    (SELECT q.tenant_id, q.due FROM run_queue q
                     WHERE p_pressing AND q.due = 2 AND q.tenant_id > w.tenant_id ORDER BY q.tenant_id LIMIT 1)) AS n
            )
            SELECT w.tenant_id, (
                SELECT t.suspended_at IS NULL AND (w.due = 2 OR t.max_concurrent_runs IS NULL OR t.max_concurrent_runs > (
                    SELECT count(*) FROM run_queue h
                    WHERE h.tenant_id = t.tenant_id AND h.lease_owner IS NOT NULL AND NOT h.ended))
                FROM tenants t WHERE t.tenant_id = w.tenant_id) AS has_room
            FROM walk w WHERE w.due > 0
        LOOP
            IF wrapped AND own.tenant_id > p_after THEN
                around := true;
                RETURN;
            END IF;
            IF looks >= p_looks OR cardinality(tenants) >= p_most THEN
                RETURN;
            END IF;
            looks := looks + 1;
            latest := own.tenant_id;
            IF own.has_room THEN
                tenants := tenants || own.tenant_id;
            END IF;
        END LOOP;
        IF wrapped THEN
            around := true;
            RETURN;
        END IF;
        wrapped := true;
        start := '00000000-0000-0000-0000-000000000000';
    END LOOP;
END
$$;

-- The beginning of a claim: one server's at a time. Marks what has become due, and says whose it is. None of this waits for a
-- row, and a table that has grown since it was measured is still read by its indexes.
CREATE FUNCTION claim_begin(
    p_lock bigint, p_patience text, p_after uuid, p_most integer, p_looks integer, p_pressing boolean,
    OUT tenants uuid[], OUT latest uuid, OUT around boolean
)
LANGUAGE plpgsql
AS $$
DECLARE
    owners uuid[];
    runs uuid[];
    befores uuid[];
BEGIN
    PERFORM set_config('lock_timeout', p_patience, true), set_config('enable_seqscan', 'off', true),
        set_config('enable_bitmapscan', 'off', true);
    PERFORM pg_advisory_xact_lock(p_lock);
    -- What stands before runs that are new in a line, or whose line has moved. Whoever ends the one before waits for this, so
    -- it can't end unseen; a row that somebody is just at is looked at the next time.
    WITH fresh AS MATERIALIZED (
        SELECT tenant_id, run_id, thread_id, concurrency_key, ord FROM run_queue
        WHERE NOT first_in_line AND behind IS NULL
        ORDER BY ord LIMIT 500 FOR NO KEY UPDATE SKIP LOCKED
    ), seen AS MATERIALIZED (
        SELECT f.tenant_id, f.run_id, coalesce(
            (SELECT e.run_id FROM run_queue e WHERE e.tenant_id = f.tenant_id AND e.thread_id = f.thread_id
                AND e.ord < f.ord AND NOT e.ended ORDER BY e.ord DESC LIMIT 1),
            (SELECT e.run_id FROM run_queue e WHERE e.tenant_id = f.tenant_id AND e.concurrency_key = f.concurrency_key
                AND e.ord < f.ord AND NOT e.ended ORDER BY e.ord DESC LIMIT 1)) AS before
        FROM fresh f
    ), firm AS MATERIALIZED (
        SELECT s.tenant_id, s.run_id, e.run_id AS before FROM seen s CROSS JOIN LATERAL (
            SELECT run_id FROM run_queue e WHERE e.tenant_id = s.tenant_id AND e.run_id = s.before AND NOT e.ended
            FOR SHARE SKIP LOCKED) e
        UNION ALL
        SELECT tenant_id, run_id, NULL FROM seen WHERE before IS NULL
    )
    SELECT array_agg(tenant_id), array_agg(run_id), array_agg(before) INTO owners, runs, befores FROM firm;
    UPDATE run_queue q SET behind = f.before, first_in_line = f.before IS NULL
    FROM unnest(owners, runs, befores) AS f(tenant_id, run_id, before)
    WHERE q.tenant_id = f.tenant_id AND q.run_id = f.run_id;
    -- What time has made due.
    WITH ripe AS MATERIALIZED (
        SELECT tenant_id, run_id FROM run_queue WHERE ripe_at <= now()
        ORDER BY ripe_at LIMIT 1000 FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE run_queue q SET due = 0 FROM ripe WHERE q.tenant_id = ripe.tenant_id AND q.run_id = ripe.run_id;
    SELECT d.tenants, d.latest, d.around INTO tenants, latest, around
    FROM tenants_due(p_after, p_most, p_looks, p_pressing) d;
END
$$;
REVOKE ALL ON FUNCTION run_queue_due(), run_queue_step_up(), tenants_due(uuid, integer, integer, boolean),
    claim_begin(bigint, text, uuid, integer, integer, boolean) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tenants_due(uuid, integer, integer, boolean),
    claim_begin(bigint, text, uuid, integer, integer, boolean)
    TO answerable_system;
