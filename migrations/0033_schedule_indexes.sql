-- Runs are read while these are made, and not written. They can't be made CONCURRENTLY: that waits for whoever looks at the
-- database, and servers that start look for the lock that migrations are under.
SELECT lock_tables('SHARE', 'runs');
CREATE INDEX runs_by_schedule ON runs (tenant_id, schedule_id, ord DESC) WHERE schedule_id IS NOT NULL;
-- Those under way, which others wait for.
CREATE INDEX runs_of_schedules_open ON runs (tenant_id, schedule_id) WHERE schedule_id IS NOT NULL AND finished_at IS NULL;
