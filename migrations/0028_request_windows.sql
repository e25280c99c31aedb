-- Requests a minute, counted over all servers: each takes some of a tenant's in advance and gives back what it doesn't need.

SELECT lock_tables('SHARE ROW EXCLUSIVE', 'tenants');
CREATE TABLE request_windows (
    tenant_id uuid PRIMARY KEY REFERENCES tenants ON DELETE CASCADE,
    -- The minute began then, with the first request after the one before was over.
    began timestamptz NOT NULL,
    -- Requests of it that servers have taken.
    taken bigint NOT NULL CHECK (taken >= 0)
) WITH (fillfactor = 50);

ALTER TABLE request_windows ENABLE ROW LEVEL SECURITY;
ALTER TABLE request_windows FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON request_windows TO answerable_app
    USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
GRANT SELECT, INSERT, UPDATE ON request_windows TO answerable_app;

-- Takes up to `p_wanted` of the `p_most` requests of a minute. `p_unused` of what was taken from the minute that began at
-- `p_began` come back with it. No row: there is no such tenant.
CREATE FUNCTION take_requests(
    p_tenant uuid, p_most bigint, p_wanted bigint, p_began timestamptz, p_unused bigint,
    OUT granted bigint, OUT remaining bigint, OUT began timestamptz, OUT ends_in_ms bigint
) RETURNS SETOF record
LANGUAGE plpgsql
AS $$
DECLARE
    moment timestamptz;
    own request_windows;
BEGIN
    -- What a crash of the database loses of this is a minute's count at most, and nobody need wait for its disk.
    PERFORM set_config('synchronous_commit', 'off', true);
    LOOP
        SELECT * INTO own FROM request_windows w WHERE w.tenant_id = p_tenant FOR NO KEY UPDATE;
        EXIT WHEN FOUND;
        PERFORM FROM tenants t WHERE t.tenant_id = p_tenant FOR KEY SHARE;
        IF NOT FOUND THEN
            RETURN;
        END IF;
        INSERT INTO request_windows VALUES (p_tenant, '-infinity', 0) ON CONFLICT DO NOTHING;
    END LOOP;
    -- After the lock: whoever had it before may have begun the minute just now.
    moment := clock_timestamp();
    IF own.began = p_began THEN
        own.taken := greatest(own.taken - p_unused, 0);
    END IF;
    -- A clock that was set back must not stretch a minute.
    IF moment < own.began OR moment >= own.began + interval '1 minute' THEN
        own.began := moment;
        own.taken := 0;
    END IF;
    granted := least(greatest(p_most - own.taken, 0), p_wanted);
    own.taken := own.taken + granted;
    remaining := greatest(p_most - own.taken, 0);
    began := own.began;
    ends_in_ms := ceil(extract(epoch FROM own.began + interval '1 minute' - moment) * 1000)::bigint;
    UPDATE request_windows w SET began = own.began, taken = own.taken
    WHERE w.tenant_id = p_tenant AND (w.began, w.taken) IS DISTINCT FROM (own.began, own.taken);
    RETURN NEXT;
END
$$;
