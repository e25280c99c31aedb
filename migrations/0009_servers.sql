-- Which servers live, so that only the death of a server counts as one: a server that could not renew (the database or the
-- line was away, or it stood still) comes back, a dead process never does. An id is one process's.

CREATE TABLE servers (
    server_id uuid PRIMARY KEY,
    seen_at timestamptz NOT NULL
);
GRANT SELECT, INSERT, UPDATE, DELETE ON servers TO answerable_system;

-- Whoever let the run's lease run out last, and when that was found. If it is seen again later, it had not died.
ALTER TABLE run_queue ADD COLUMN suspect uuid, ADD COLUMN suspected_at timestamptz;

-- Deaths that are sure, and the last one as long as nothing speaks against it.
CREATE FUNCTION run_deaths(deaths integer, suspect uuid, suspected_at timestamptz) RETURNS integer
LANGUAGE sql STABLE
AS $$
    SELECT deaths + CASE
        WHEN suspect IS NULL OR EXISTS (SELECT FROM servers s WHERE s.server_id = suspect AND s.seen_at > suspected_at)
        THEN 0 ELSE 1 END
$$;

-- Cancels of runs that somebody has, to be looked through for those whose server is silent.
CREATE INDEX run_queue_urgent_held ON run_queue (lease_owner) WHERE urgent AND lease_owner IS NOT NULL;
