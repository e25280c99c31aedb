-- Limits of a tool: how many of a tenant's calls are out at once, and how many begin in a span of time, over all servers.

-- A tool that has limits. Whoever wants a place locks the row, so that places are given one after another.
CREATE TABLE tool_limits (
    tenant_id uuid NOT NULL REFERENCES tenants ON DELETE CASCADE,
    tool_name text NOT NULL,
    -- Calls that have begun so far, and the longest row of them that an agent's limit has looked back over.
    begun bigint NOT NULL DEFAULT 0,
    longest integer NOT NULL DEFAULT 0,
    used_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, tool_name)
);

-- When each of the last of them began.
CREATE TABLE tool_begun (
    tenant_id uuid NOT NULL,
    tool_name text NOT NULL,
    number bigint NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, tool_name, number),
    FOREIGN KEY (tenant_id, tool_name) REFERENCES tool_limits ON DELETE CASCADE
);

-- Calls that are out, and calls that wait in line for it. The row is written before a request leaves: without one, it hasn't.
CREATE TABLE tool_places (
    tenant_id uuid NOT NULL,
    tool_name text NOT NULL,
    call_id uuid NOT NULL,
    run_id uuid NOT NULL,
    attempt integer NOT NULL CHECK (attempt > 0),
    -- Of the lease under which it was asked for.
    epoch bigint NOT NULL,
    since timestamptz NOT NULL,
    left_at timestamptz,
    -- The place is free by then, whatever became of its server; a call in line will have asked again.
    until timestamptz NOT NULL,
    -- The limits that it goes by: agents may have different ones for a tool of one name.
    most integer,
    calls integer,
    per_ms bigint,
    PRIMARY KEY (tenant_id, tool_name, call_id),
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs ON DELETE CASCADE
);
CREATE INDEX tool_places_by_run ON tool_places (tenant_id, run_id);

DO $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['tool_limits', 'tool_begun', 'tool_places'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY own_tenant ON %I TO answerable_app USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant())', t);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO answerable_app', t);
    END LOOP;
END
$$;

-- How many more calls of a tool may begin now, by a rate of `p_calls` in `p_per_ms`.
CREATE FUNCTION calls_left(p_tenant uuid, p_tool text, p_begun bigint, p_calls integer, p_per_ms bigint, p_moment timestamptz)
RETURNS bigint
LANGUAGE sql STABLE
AS $$
    SELECT p_calls - count(*) FROM tool_begun b
    WHERE b.tenant_id = p_tenant AND b.tool_name = p_tool AND b.number > p_begun - p_calls
        AND b.at > p_moment - make_interval(secs => p_per_ms / 1000.0)
$$;

-- Asks for a place among at most `p_most` that are out and at most `p_calls` that begin in `p_per_ms`; null is no limit.
-- 0: it has it, for `p_hold_ms` at most. More: milliseconds after which it is to ask again; until then it keeps its place in
-- line. Null: another server has the run. Whoever asks holds a connection meanwhile, so it doesn't wait long for others.
CREATE FUNCTION take_place(
    p_tenant uuid, p_tool text, p_run uuid, p_call uuid, p_attempt integer, p_epoch bigint,
    p_most integer, p_calls integer, p_per_ms bigint, p_hold_ms bigint
) RETURNS bigint
LANGUAGE plpgsql
SET lock_timeout = '500ms'
AS $$
DECLARE
    tool tool_limits;
    own tool_places;
    moment timestamptz;
    in_line_since timestamptz;
    ahead bigint;
    is_out bigint;
    over bigint;
    last_at timestamptz;
    wait_ms bigint := 0;
BEGIN
    LOOP
        SELECT * INTO tool FROM tool_limits WHERE tenant_id = p_tenant AND tool_name = p_tool FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO tool_limits (tenant_id, tool_name) VALUES (p_tenant, p_tool) ON CONFLICT DO NOTHING;
        -- No span is longer than a day.
        DELETE FROM tool_limits old USING (
            SELECT l.tool_name FROM tool_limits l
            WHERE l.tenant_id = p_tenant AND l.used_at < now() - interval '2 days' LIMIT 100 FOR UPDATE SKIP LOCKED
        ) AS unused
        WHERE old.tenant_id = p_tenant AND old.tool_name = unused.tool_name;
    END LOOP;
    moment := clock_timestamp();

    PERFORM FROM run_states s WHERE s.tenant_id = p_tenant AND s.run_id = p_run AND s.epoch = p_epoch;
    IF NOT FOUND THEN RETURN NULL; END IF;
    SELECT * INTO own FROM tool_places WHERE tenant_id = p_tenant AND tool_name = p_tool AND call_id = p_call;
    -- Asked twice, because the first answer was lost. A place that was given back is none: the same is asked anew.
    IF own.left_at IS NOT NULL AND own.attempt = p_attempt AND own.epoch = p_epoch AND own.until > moment THEN
        RETURN 0;
    END IF;
    in_line_since := CASE WHEN own.left_at IS NULL AND own.attempt = p_attempt THEN own.since ELSE moment END;

    -- Whoever waits no more, and calls whose outcome is written down.
    DELETE FROM tool_places p WHERE p.tenant_id = p_tenant AND p.tool_name = p_tool AND p.call_id <> p_call
        AND ((p.left_at IS NULL AND p.until < moment)
            OR NOT EXISTS (SELECT FROM ledger l WHERE l.tenant_id = p_tenant AND l.call_id = p.call_id AND l.status = 'started'));
    SELECT count(*) INTO is_out
    FROM tool_places p
    WHERE p.tenant_id = p_tenant AND p.tool_name = p_tool AND p.call_id <> p_call AND p.left_at IS NOT NULL AND p.until > moment;
    -- Those under the same limits are all served before; of others that were there before, as many as theirs let out now.
    SELECT coalesce(sum(CASE WHEN (w.most, w.calls, w.per_ms) IS NOT DISTINCT FROM (p_most, p_calls, p_per_ms) THEN w.waiting
        ELSE least(
            w.waiting,
            CASE WHEN w.most IS NOT NULL THEN greatest(w.most - is_out, 0) END,
            CASE WHEN w.calls IS NOT NULL THEN calls_left(p_tenant, p_tool, tool.begun, w.calls, w.per_ms, moment) END) END), 0)
    INTO ahead
    FROM (
        SELECT p.most, p.calls, p.per_ms, count(*) AS waiting FROM tool_places p
        WHERE p.tenant_id = p_tenant AND p.tool_name = p_tool AND p.call_id <> p_call AND p.left_at IS NULL
            AND (p.since, p.call_id) < (in_line_since, p_call)
        GROUP BY p.most, p.calls, p.per_ms
    ) AS w;

    over := is_out + ahead - p_most + 1;
    IF over > 0 THEN
        -- Longer for who is far behind, but about a second for as many as may be out together.
        wait_ms := least(50 * over, 1000 * ceil(over::numeric / p_most)::bigint);
    END IF;
    IF p_calls IS NOT NULL THEN
        -- The call that must have begun a whole span ago.
        SELECT b.at INTO last_at FROM tool_begun b
        WHERE b.tenant_id = p_tenant AND b.tool_name = p_tool AND b.number = least(tool.begun, tool.begun + 1 + ahead - p_calls);
        IF last_at IS NOT NULL THEN
            wait_ms := greatest(wait_ms, ceil(extract(epoch FROM last_at - moment) * 1000)::bigint + p_per_ms);
        END IF;
    END IF;

    IF wait_ms > 0 THEN
        wait_ms := least(wait_ms, 5000);
        INSERT INTO tool_places AS p (tenant_id, tool_name, call_id, run_id, attempt, epoch, since, until, most, calls, per_ms)
        VALUES (p_tenant, p_tool, p_call, p_run, p_attempt, p_epoch, in_line_since,
            moment + make_interval(secs => wait_ms / 1000.0 + 5), p_most, p_calls, p_per_ms)
        ON CONFLICT (tenant_id, tool_name, call_id) DO UPDATE SET attempt = excluded.attempt, epoch = excluded.epoch,
            since = excluded.since, left_at = NULL, until = excluded.until,
            most = excluded.most, calls = excluded.calls, per_ms = excluded.per_ms;
        RETURN wait_ms;
    END IF;

    INSERT INTO tool_places AS p (tenant_id, tool_name, call_id, run_id, attempt, epoch, since, left_at, until)
    VALUES (p_tenant, p_tool, p_call, p_run, p_attempt, p_epoch, in_line_since, moment, moment + make_interval(secs => p_hold_ms / 1000.0))
    ON CONFLICT (tenant_id, tool_name, call_id) DO UPDATE SET attempt = excluded.attempt, epoch = excluded.epoch,
        since = excluded.since, left_at = excluded.left_at, until = excluded.until;
    UPDATE tool_limits l SET used_at = moment, longest = greatest(l.longest, coalesce(p_calls, 0)),
        begun = l.begun + CASE WHEN p_calls IS NOT NULL OR l.longest > 0 THEN 1 ELSE 0 END
    WHERE l.tenant_id = p_tenant AND l.tool_name = p_tool RETURNING * INTO tool;
    IF tool.longest > 0 THEN
        INSERT INTO tool_begun (tenant_id, tool_name, number, at) VALUES (p_tenant, p_tool, tool.begun, moment);
        DELETE FROM tool_begun b WHERE b.tenant_id = p_tenant AND b.tool_name = p_tool AND b.number <= tool.begun - tool.longest;
    END IF;
    RETURN 0;
END
$$;

-- Gives an attempt's place up, or its place in line; the next attempt has its own. A question for it that is still under way
-- is waited for, so that it doesn't come after this. `p_left`: it was used, which stays written down.
CREATE FUNCTION free_place(
    p_tenant uuid, p_tool text, p_call uuid, p_attempt integer, p_epoch bigint, p_left boolean
) RETURNS void
LANGUAGE plpgsql
SET lock_timeout = '500ms'
AS $$
BEGIN
    PERFORM FROM tool_limits WHERE tenant_id = p_tenant AND tool_name = p_tool FOR UPDATE;
    IF p_left THEN
        UPDATE tool_places SET until = clock_timestamp()
        WHERE tenant_id = p_tenant AND tool_name = p_tool AND call_id = p_call AND attempt = p_attempt AND epoch = p_epoch;
    ELSE
        DELETE FROM tool_places
        WHERE tenant_id = p_tenant AND tool_name = p_tool AND call_id = p_call AND attempt = p_attempt AND epoch = p_epoch;
    END IF;
END
$$;
