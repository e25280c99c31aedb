-- Which schedule a run is of, and when it was due. A run outlives its schedule.
SELECT lock_tables('ACCESS EXCLUSIVE', 'runs');
ALTER TABLE runs ADD COLUMN schedule_id uuid;
ALTER TABLE runs ADD COLUMN due_at timestamptz;
ALTER TABLE runs ADD CONSTRAINT runs_of_schedules_were_due CHECK ((schedule_id IS NULL) = (due_at IS NULL)) NOT VALID;
