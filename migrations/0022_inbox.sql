-- The inbox: what is asked across runs, by when it must be decided, and what was asked and decided before.

CREATE INDEX approvals_due ON approvals (tenant_id, expires_at, ord) WHERE status = 'pending';
CREATE INDEX approvals_by_time ON approvals (tenant_id, created_at);
CREATE INDEX approvals_by_decider ON approvals (tenant_id, decided_by, ord DESC) WHERE decided_by IS NOT NULL;
CREATE INDEX approvals_by_tool ON approvals (tenant_id, tool_name, ord DESC) WHERE tool_name IS NOT NULL;
