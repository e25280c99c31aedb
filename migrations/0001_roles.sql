-- Two roles that can't log in. The service steps down to one of them in every transaction, whoever it connects as:
--   answerable_app     one tenant's rows, the one named by app.tenant; row-level security holds for it always.
--   answerable_system  work across tenants: claiming runs, checking keys, delivering webhooks, the operator's pages.
-- Roles belong to the cluster, so several databases share them.
DO $$
DECLARE
    role text;
BEGIN
    FOREACH role IN ARRAY ARRAY['answerable_app', 'answerable_system'] LOOP
        -- Where they stand already, perhaps made by an administrator, nobody needs the right to make roles.
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN NOINHERIT', role);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL;
            END;
        END IF;
        IF EXISTS (SELECT FROM pg_roles WHERE rolname = role AND (rolsuper OR rolbypassrls)) THEN
            RAISE EXCEPTION 'the role % is above row-level security, which parts the tenants', role;
        END IF;
        -- From version 16 on, whoever makes a role is its member without the right to step down to it.
        IF NOT pg_has_role(current_user, role,
            CASE WHEN current_setting('server_version_num')::integer >= 160000 THEN 'SET' ELSE 'MEMBER' END) THEN
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
