-- Replays: runs that were played again from what is recorded. They are stored whole and have ended; they made no effects and
-- asked nobody, so they stand in no queue, on no bill and in nobody's ledger.

ALTER TABLE runs
    DROP CONSTRAINT runs_origin_kind_check,
    -- What came out otherwise first; null: nothing did. {step, field, expected, got}
    ADD COLUMN first_difference json;
-- Rows that stand here already were under a stricter rule: nothing to look through under the lock.
ALTER TABLE runs
    ADD CONSTRAINT runs_origin_kind_check CHECK (origin_kind IN ('continue', 'fork', 'replay')) NOT VALID,
    ADD CONSTRAINT only_replays_differ CHECK (first_difference IS NULL OR origin_kind = 'replay') NOT VALID;
