-- Artifacts that came in with a message are no call's.
ALTER TABLE artifacts ALTER COLUMN call_id DROP NOT NULL;
