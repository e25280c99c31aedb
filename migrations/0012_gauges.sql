-- What is watched across tenants: how much waits, and since when.

CREATE INDEX approvals_pending ON approvals (kind, created_at) WHERE status = 'pending';
CREATE INDEX ledger_unsettled ON ledger (finished_at) WHERE status = 'uncertain' AND resolution IS NULL;

-- Of the ledger whoever counts sees the effects of which nobody knows, and of those since when.
CREATE POLICY unsettled ON ledger FOR SELECT TO answerable_system USING (status = 'uncertain' AND resolution IS NULL);
GRANT SELECT (finished_at) ON ledger TO answerable_system;
