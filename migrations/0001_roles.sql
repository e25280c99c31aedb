-- Two roles that can't log in. The service steps down to one of them in every transaction, whoever it connects as:
--   answerable_app     one tenant's rows, the one named by app.tenant; row-level security holds for it always.
--   answerable_system  work across tenants: claiming runs, checking keys, delivering webhooks, the operator's pages.
-- Roles belong to the cluster, so several databases share them.
DO $$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['answerable_app', 'answerable_system'] LOOP
        BEGIN
            EXECUTE format('CREATE ROLE %I NOLOGIN NOINHERIT NOBYPASSRLS NOSUPERUSER NOCREATEDB NOCREATEROLE', role);
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL;
        END;
        IF NOT pg_has_role(current_user, role, 'MEMBER') THEN
            EXECUTE format('GRANT %I TO CURRENT_USER', role);
        END IF;
    END LOOP;
END
$$;

GRANT USAGE ON SCHEMA public TO answerable_app, answerable_system;

-- The tenant of this transaction; null where none was set, and then no row is anybody's.
CREATE FUNCTION app_tenant() RETURNS uuid
LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT nullif(current_setting('app.tenant', true), '')::uuid $$;
