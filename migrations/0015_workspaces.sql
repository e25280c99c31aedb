-- Workspaces: the versioned files of a thread, or of a run without one.

-- Which thread or run has a workspace. Runs of a thread have the thread's.
CREATE INDEX threads_by_workspace ON threads (tenant_id, workspace_id);
CREATE INDEX runs_by_workspace ON runs (tenant_id, workspace_id);

-- Made with the first file. Whoever writes files locks it.
CREATE TABLE workspaces (
    tenant_id uuid NOT NULL REFERENCES tenants ON DELETE CASCADE,
    workspace_id uuid NOT NULL,
    -- Writes so far: each is a version of the files that it changes.
    version bigint NOT NULL DEFAULT 0,
    files bigint NOT NULL DEFAULT 0 CHECK (files >= 0),
    bytes bigint NOT NULL DEFAULT 0 CHECK (bytes >= 0),
    PRIMARY KEY (tenant_id, workspace_id)
);

-- What files hold, each content of a tenant once: small ones here, others in object storage.
CREATE TABLE blobs (
    tenant_id uuid NOT NULL REFERENCES tenants ON DELETE CASCADE,
    sha256 bytea NOT NULL CHECK (octet_length(sha256) = 32),
    bytes bigint NOT NULL,
    content bytea,
    -- With the hash, the name of its object where it isn't here. A content that went and comes again has another one.
    object uuid,
    -- No file holds it, as far as is known, since then. It is taken away when that is long ago.
    unused_since timestamptz,
    PRIMARY KEY (tenant_id, sha256),
    CONSTRAINT contents_are_in_one_place CHECK (num_nonnulls(content, object) = 1)
);
CREATE INDEX blobs_unused ON blobs (unused_since) WHERE unused_since IS NOT NULL;
CREATE INDEX blobs_unused_of_tenant ON blobs (tenant_id) INCLUDE (bytes) WHERE unused_since IS NOT NULL AND object IS NOT NULL;

-- Objects whose contents' rows are gone already. Each row goes when the object has.
CREATE TABLE gone_objects (
    object uuid PRIMARY KEY,
    tenant_id uuid NOT NULL,
    sha256 bytea NOT NULL
);

CREATE TABLE workspace_files (
    tenant_id uuid NOT NULL,
    workspace_id uuid NOT NULL,
    -- In the order of its bytes.
    path text COLLATE "C" NOT NULL CHECK (octet_length(path) BETWEEN 1 AND 1024),
    version bigint NOT NULL CHECK (version > 0),
    sha256 bytea NOT NULL,
    bytes bigint NOT NULL,
    media_type text NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now(),
    updated_by text NOT NULL,
    PRIMARY KEY (tenant_id, workspace_id, path),
    FOREIGN KEY (tenant_id, workspace_id) REFERENCES workspaces ON DELETE CASCADE,
    FOREIGN KEY (tenant_id, sha256) REFERENCES blobs
);
CREATE INDEX workspace_files_by_blob ON workspace_files (tenant_id, sha256);

-- What a run last saw of a path; no version: that there was no file.
CREATE SEQUENCE workspace_seen_ord;
CREATE TABLE workspace_seen (
    tenant_id uuid NOT NULL,
    workspace_id uuid NOT NULL,
    path text COLLATE "C" NOT NULL,
    run_id uuid NOT NULL,
    version bigint,
    -- Later looks have higher ones.
    ord bigint NOT NULL DEFAULT nextval('workspace_seen_ord'),
    PRIMARY KEY (tenant_id, workspace_id, path, run_id),
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs ON DELETE CASCADE
) WITH (fillfactor = 85);
CREATE INDEX workspace_seen_of_run ON workspace_seen (tenant_id, run_id);

-- What became of a call that changes files, written with its changes: the same call again changes nothing.
CREATE TABLE workspace_calls (
    tenant_id uuid NOT NULL,
    call_id uuid NOT NULL,
    run_id uuid NOT NULL,
    version bigint NOT NULL,
    output text NOT NULL,
    PRIMARY KEY (tenant_id, call_id),
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs ON DELETE CASCADE
);
CREATE INDEX workspace_calls_of_run ON workspace_calls (tenant_id, run_id);

-- Tenants that are gone and may have left contents in object storage. The row stays for a while, for writes that were
-- under way.
CREATE TABLE gone_tenants (
    tenant_id uuid PRIMARY KEY,
    gone_at timestamptz NOT NULL DEFAULT now()
);

DO $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['workspaces', 'blobs', 'workspace_files', 'workspace_seen', 'workspace_calls', 'gone_tenants',
        'gone_objects'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY own_tenant ON %I TO answerable_app USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant())', t);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO answerable_app', t);
    END LOOP;
    -- Sweeping crosses tenants: it sees what is used by whom, never what is in it.
    FOREACH t IN ARRAY ARRAY['blobs', 'workspace_files', 'gone_tenants', 'gone_objects'] LOOP
        EXECUTE format('CREATE POLICY every_tenant ON %I TO answerable_system USING (true) WITH CHECK (true)', t);
    END LOOP;
END
$$;
GRANT USAGE ON SEQUENCE workspace_seen_ord TO answerable_app;
GRANT SELECT (tenant_id, sha256, object, unused_since), UPDATE (unused_since), DELETE ON blobs TO answerable_system;
GRANT SELECT (tenant_id, sha256) ON workspace_files TO answerable_system;
GRANT SELECT, DELETE ON gone_tenants TO answerable_system;
GRANT SELECT, INSERT, DELETE ON gone_objects TO answerable_system;

-- The runs whose history a run has: its own, those that it stands on, those of its thread that had ended before it came.
CREATE FUNCTION known_runs(p_tenant uuid, p_run uuid) RETURNS TABLE (run_id uuid)
LANGUAGE sql STABLE
AS $$
    SELECT p_run
    UNION SELECT l.ancestor_id FROM run_lineage l WHERE l.tenant_id = p_tenant AND l.run_id = p_run
    UNION SELECT r.run_id
    FROM runs own JOIN runs r ON r.tenant_id = own.tenant_id AND r.thread_id = own.thread_id AND r.ord < own.ord
    WHERE own.tenant_id = p_tenant AND own.run_id = p_run AND r.finished_at IS NOT NULL
$$;

-- Whether anybody has the workspace: a thread that is not deleted; or, where no thread ever had it, a run.
CREATE FUNCTION workspace_is_somebodys(p_tenant uuid, p_workspace uuid) RETURNS boolean
LANGUAGE sql STABLE
AS $$
    SELECT EXISTS (SELECT FROM threads t WHERE t.tenant_id = p_tenant AND t.workspace_id = p_workspace AND t.deleted_at IS NULL)
        OR (EXISTS (SELECT FROM runs r WHERE r.tenant_id = p_tenant AND r.workspace_id = p_workspace)
            AND NOT EXISTS (SELECT FROM threads t WHERE t.tenant_id = p_tenant AND t.workspace_id = p_workspace))
$$;
