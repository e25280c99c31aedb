-- When a tenant was suspended, once that is over: what its runs must not be charged with.
SELECT lock_tables('SHARE ROW EXCLUSIVE', 'tenants');
CREATE TABLE suspensions (
    tenant_id uuid NOT NULL REFERENCES tenants ON DELETE CASCADE,
    until timestamptz NOT NULL,
    began_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, until),
    CONSTRAINT it_ends_after_it_began CHECK (until >= began_at)
);
ALTER TABLE suspensions ENABLE ROW LEVEL SECURITY;
ALTER TABLE suspensions FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON suspensions TO answerable_app USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant());
CREATE POLICY every_tenant ON suspensions TO answerable_system USING (true) WITH CHECK (true);
GRANT SELECT ON suspensions TO answerable_app;
GRANT SELECT, INSERT ON suspensions TO answerable_system;
