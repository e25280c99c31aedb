-- Locks tables for a migration beside running servers: all of them, or none yet. Whoever waited for one while it held another
-- could wait in a circle with a commit, and whoever waits for long keeps all waiting who come behind it; so it gives up soon and
-- begins anew, some two hundred times. It comes first in its migration.
CREATE FUNCTION lock_tables(p_mode text, VARIADIC p_tables text[]) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    patience text := current_setting('lock_timeout');
    names text := (SELECT string_agg(quote_ident(name), ', ') FROM unnest(p_tables) AS name);
    vacuumed text;
BEGIN
    FOR attempt IN 1..200 LOOP
        BEGIN
            PERFORM set_config('lock_timeout', '300ms', true);
            EXECUTE format('LOCK TABLE %s IN %s MODE', names, p_mode);
            PERFORM set_config('lock_timeout', patience, true);
            RETURN;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            -- What it had is free again.
            PERFORM pg_sleep(0.1 + 0.4 * random());
        END;
        CONTINUE WHEN attempt % 5 <> 0;
        -- PostgreSQL calls off a vacuum of its own for those alone who have waited for deadlock_timeout. So each table that may
        -- have one is waited for as long as that, with nothing held that could close a circle, and given back.
        FOR vacuumed IN
            SELECT name FROM unnest(p_tables) AS name WHERE EXISTS (
                SELECT FROM pg_locks l WHERE l.relation = to_regclass(quote_ident(name)) AND l.granted
                    AND l.mode = 'ShareUpdateExclusiveLock'
                    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()))
        LOOP
            BEGIN
                PERFORM set_config('lock_timeout', (SELECT (setting::integer + 500)::text FROM pg_settings
                    WHERE name = 'deadlock_timeout'), true);
                EXECUTE format('LOCK TABLE %I IN %s MODE', vacuumed, p_mode);
                RAISE lock_not_available;
            EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
                NULL;
            END;
        END LOOP;
    END LOOP;
    RAISE lock_not_available USING MESSAGE = format('%s are in use all the time', names);
END
$$;
REVOKE ALL ON FUNCTION lock_tables(text, text[]) FROM PUBLIC;

-- A tenant may be suspended: it is served nothing and works on nothing until it is resumed.
SELECT lock_tables('ACCESS EXCLUSIVE', 'tenants');
ALTER TABLE tenants ADD COLUMN suspended_at timestamptz;
