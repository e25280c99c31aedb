-- How much a tenant has of what is limited, counted with each change, whoever makes it.

-- Until this is done nobody else reads or writes these.
SELECT lock_tables('ACCESS EXCLUSIVE', 'agents', 'threads', 'webhooks', 'secrets', 'schedules', 'providers', 'mcp_servers',
    'api_keys', 'artifacts', 'workspaces');

-- The sum of its slips. Whoever changes a count takes a slip that nobody holds, or a new one: nobody waits for another's
-- transaction, so that counting neither holds anything up nor locks in an order of its own. A slip alone says nothing, and may
-- be negative. There is no reference to tenants: a commit of a run, which counts, must not lock its tenant's row.
CREATE TABLE tenant_counts (
    tenant_id uuid NOT NULL,
    kind text NOT NULL,
    slip uuid NOT NULL,
    used bigint NOT NULL,
    PRIMARY KEY (tenant_id, kind, slip)
) WITH (fillfactor = 50);

ALTER TABLE tenant_counts ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenant_counts FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON tenant_counts TO answerable_app
    USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, UPDATE, DELETE ON tenant_counts TO answerable_app;
-- The operator makes a tenant's keys, which are counted.
CREATE POLICY every_tenant ON tenant_counts FOR SELECT TO answerable_system USING (true);
GRANT SELECT ON tenant_counts TO answerable_system;

GRANT CREATE ON SCHEMA public TO answerable_app;
SET LOCAL ROLE answerable_app;

CREATE FUNCTION count_change(p_tenant uuid, p_kind text, p_more bigint) RETURNS void
LANGUAGE plpgsql
SET search_path = public, pg_temp
AS $$
DECLARE
    before text := current_setting('app.tenant', true);
    taken uuid;
BEGIN
    IF p_more = 0 THEN
        RETURN;
    END IF;
    PERFORM set_config('app.tenant', p_tenant::text, true);
    SELECT slip INTO taken FROM tenant_counts WHERE tenant_id = p_tenant AND kind = p_kind
    ORDER BY slip LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
    IF FOUND THEN
        UPDATE tenant_counts SET used = used + p_more WHERE tenant_id = p_tenant AND kind = p_kind AND slip = taken;
    ELSE
        INSERT INTO tenant_counts (tenant_id, kind, slip, used) VALUES (p_tenant, p_kind, gen_random_uuid(), p_more);
    END IF;
    PERFORM set_config('app.tenant', coalesce(before, ''), true);
END
$$;
REVOKE ALL ON FUNCTION count_change(uuid, text, bigint) FROM PUBLIC;

-- Whether there is room for more under a limit. Who is far from it (as far as all that can be under way at once) waits for
-- nobody; who is near it is alone until the end of its transaction, and comes after all who were not near. So the last place
-- goes to one.
CREATE FUNCTION count_room(p_tenant uuid, p_kind text, p_more bigint, p_max bigint, p_under_way bigint) RETURNS boolean
LANGUAGE plpgsql
SET search_path = public, pg_temp
AS $$
DECLARE
    turn bigint := hashtextextended('count ' || p_kind || ' of ' || p_tenant, 0);
    had bigint;
BEGIN
    SELECT coalesce(sum(used), 0) INTO had FROM tenant_counts WHERE tenant_id = p_tenant AND kind = p_kind;
    IF had + p_more <= p_max - p_under_way THEN
        BEGIN
            PERFORM pg_advisory_xact_lock_shared(turn);
            -- Looked at anew: others may have come before.
            SELECT coalesce(sum(used), 0) INTO had FROM tenant_counts WHERE tenant_id = p_tenant AND kind = p_kind;
            IF had + p_more <= p_max - p_under_way THEN
                RETURN true;
            END IF;
            -- Gives the lock back: two who had it would wait for each other to be alone.
            RAISE assert_failure;
        EXCEPTION WHEN assert_failure THEN
            NULL;
        END;
    END IF;
    PERFORM pg_advisory_xact_lock(turn);
    SELECT coalesce(sum(used), 0) INTO had FROM tenant_counts WHERE tenant_id = p_tenant AND kind = p_kind;
    RETURN had + p_more <= p_max;
END
$$;
REVOKE ALL ON FUNCTION count_room(uuid, text, bigint, bigint, bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION count_room(uuid, text, bigint, bigint, bigint) TO answerable_system;
RESET ROLE;

DO $$
DECLARE
    -- Table, kind, and what each of its rows counts. Rows that go with their tenant or their run go by the same way.
    counted text[][] := ARRAY[
        ['agents', 'agents', '(archived_at IS NULL)::integer'],
        ['threads', 'threads', '(deleted_at IS NULL)::integer'],
        ['webhooks', 'webhooks', '1'],
        ['secrets', 'secrets', '1'],
        ['schedules', 'schedules', '1'],
        ['providers', 'providers', '1'],
        ['mcp_servers', 'mcp_servers', '1'],
        ['api_keys', 'keys', '(revoked_at IS NULL)::integer'],
        ['artifacts', 'artifact_bytes', 'bytes'],
        ['workspaces', 'workspace_bytes', 'bytes']
    ];
    of text[];
BEGIN
    EXECUTE 'SET LOCAL ROLE answerable_app';
    FOREACH of SLICE 1 IN ARRAY counted LOOP
        EXECUTE format($make$
            CREATE FUNCTION count_%1$s() RETURNS trigger
            LANGUAGE plpgsql SECURITY DEFINER
            SET search_path = public, pg_temp
            AS $body$
            DECLARE
                changed record;
            BEGIN
                IF TG_OP = 'INSERT' THEN
                    FOR changed IN SELECT tenant_id, sum(%3$s)::bigint AS more FROM came GROUP BY tenant_id LOOP
                        PERFORM count_change(changed.tenant_id, %2$L, changed.more);
                    END LOOP;
                ELSIF TG_OP = 'DELETE' THEN
                    FOR changed IN SELECT tenant_id, -sum(%3$s)::bigint AS more FROM went GROUP BY tenant_id LOOP
                        PERFORM count_change(changed.tenant_id, %2$L, changed.more);
                    END LOOP;
                ELSE
                    FOR changed IN
                        SELECT tenant_id, sum(more)::bigint AS more FROM (
                            SELECT tenant_id, %3$s AS more FROM came UNION ALL SELECT tenant_id, -(%3$s) FROM went
                        ) AS both_ways GROUP BY tenant_id
                    LOOP
                        PERFORM count_change(changed.tenant_id, %2$L, changed.more);
                    END LOOP;
                END IF;
                RETURN NULL;
            END
            $body$
        $make$, of[1], of[2], of[3]);
    END LOOP;
    EXECUTE 'RESET ROLE';

    FOREACH of SLICE 1 IN ARRAY counted LOOP
        EXECUTE format('CREATE TRIGGER counts_what_comes AFTER INSERT ON %1$I REFERENCING NEW TABLE AS came
            FOR EACH STATEMENT EXECUTE FUNCTION count_%1$s()', of[1]);
        EXECUTE format('CREATE TRIGGER counts_what_goes AFTER DELETE ON %1$I REFERENCING OLD TABLE AS went
            FOR EACH STATEMENT EXECUTE FUNCTION count_%1$s()', of[1]);
        -- Of the others no change counts.
        IF of[1] IN ('agents', 'threads', 'api_keys', 'workspaces') THEN
            EXECUTE format('CREATE TRIGGER counts_what_changes AFTER UPDATE ON %1$I
                REFERENCING OLD TABLE AS went NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION count_%1$s()', of[1]);
        END IF;
    END LOOP;

    -- What is there. An owner of the tables who is no superuser sees no row of a table whose row-level security is forced.
    EXECUTE 'ALTER TABLE tenant_counts NO FORCE ROW LEVEL SECURITY';
    FOREACH of SLICE 1 IN ARRAY counted LOOP
        EXECUTE format('ALTER TABLE %I NO FORCE ROW LEVEL SECURITY', of[1]);
        EXECUTE format('INSERT INTO tenant_counts (tenant_id, kind, slip, used)
            SELECT tenant_id, %2$L, gen_random_uuid(), sum(%3$s) FROM %1$I GROUP BY tenant_id HAVING sum(%3$s) > 0',
            of[1], of[2], of[3]);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', of[1]);
    END LOOP;
    EXECUTE 'ALTER TABLE tenant_counts FORCE ROW LEVEL SECURITY';
    EXECUTE 'SET LOCAL ROLE answerable_app';
    FOREACH of SLICE 1 IN ARRAY counted LOOP
        -- A trigger asks for no right to call it when it fires.
        EXECUTE format('REVOKE ALL ON FUNCTION count_%1$s() FROM PUBLIC', of[1]);
    END LOOP;
    EXECUTE 'RESET ROLE';
END
$$;
REVOKE CREATE ON SCHEMA public FROM answerable_app;
