-- Runs and all that tells of them. What is written once stands in wide tables; what is written at every step is one narrow
-- row without indexes (run_states). Tables that grow with use are partitioned by the run's id: ids sort by time, so a
-- partition is a span of time, and all rows of a run stand in one.

CREATE SEQUENCE threads_ord;
CREATE TABLE threads (
    tenant_id uuid NOT NULL REFERENCES tenants ON DELETE CASCADE,
    thread_id uuid NOT NULL,
    ord bigint NOT NULL DEFAULT nextval('threads_ord'),
    workspace_id uuid NOT NULL,
    metadata jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now(),
    -- Out of lists and of further use; its runs stay.
    deleted_at timestamptz,
    PRIMARY KEY (tenant_id, thread_id)
);
CREATE INDEX threads_newest ON threads (tenant_id, ord DESC);

CREATE SEQUENCE runs_ord;
CREATE TABLE runs (
    tenant_id uuid NOT NULL REFERENCES tenants ON DELETE CASCADE,
    run_id uuid NOT NULL,
    -- Order of acceptance; within a thread or a concurrency key it is the order of running.
    ord bigint NOT NULL DEFAULT nextval('runs_ord'),
    agent_id uuid,
    agent_version integer,
    spec_hash text NOT NULL,
    thread_id uuid,
    workspace_id uuid NOT NULL,
    context json NOT NULL,
    metadata jsonb NOT NULL,
    budgets json NOT NULL,
    trace_id text NOT NULL CHECK (trace_id ~ '^[0-9a-f]{32}$'),
    created_by text NOT NULL,
    priority smallint NOT NULL DEFAULT 0,
    not_before timestamptz,
    deadline timestamptz,
    concurrency_key text,
    status text NOT NULL DEFAULT 'queued'
        CHECK (status IN ('queued', 'running', 'waiting_approval', 'waiting_tool', 'finished', 'failed', 'cancelled')),
    stop_reason text,
    final_answer text,
    error json,
    created_at timestamptz NOT NULL DEFAULT now(),
    started_at timestamptz,
    finished_at timestamptz,
    PRIMARY KEY (tenant_id, run_id),
    FOREIGN KEY (tenant_id, spec_hash) REFERENCES agent_specs,
    FOREIGN KEY (tenant_id, thread_id) REFERENCES threads,
    CONSTRAINT ended_runs_say_why CHECK ((status IN ('finished', 'failed', 'cancelled')) = (stop_reason IS NOT NULL)),
    CONSTRAINT ended_runs_say_when CHECK ((status IN ('finished', 'failed', 'cancelled')) = (finished_at IS NOT NULL)),
    CONSTRAINT finished_by_an_answer CHECK ((status = 'finished') = (stop_reason IS NOT DISTINCT FROM 'final_answer')),
    CONSTRAINT cancelled_by_a_cancel CHECK ((status = 'cancelled') = (stop_reason IS NOT DISTINCT FROM 'cancelled')),
    CONSTRAINT only_failed_runs_have_errors CHECK ((status = 'failed') = (error IS NOT NULL)),
    CONSTRAINT ended_runs_tell_their_user CHECK (status NOT IN ('finished', 'failed') OR final_answer IS NOT NULL)
) WITH (fillfactor = 85);
CREATE INDEX runs_newest ON runs (tenant_id, ord DESC);
CREATE INDEX runs_by_status ON runs (tenant_id, status, ord DESC);
CREATE INDEX runs_by_agent ON runs (tenant_id, agent_id, ord DESC) WHERE agent_id IS NOT NULL;
CREATE INDEX runs_by_thread ON runs (tenant_id, thread_id, ord) WHERE thread_id IS NOT NULL;
CREATE INDEX runs_by_metadata ON runs USING gin (metadata jsonb_path_ops);

-- The one row that every commit locks and rewrites. No index but the key, room on the page: updates stay on it.
CREATE TABLE run_states (
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    -- Rises with each claim; a server without the newest writes nothing.
    epoch bigint NOT NULL DEFAULT 0,
    -- Commits so far.
    seq bigint NOT NULL DEFAULT 0,
    last_commit uuid,
    -- Numbers given so far.
    event_seq bigint NOT NULL DEFAULT 0,
    inbox_seq bigint NOT NULL DEFAULT 0,
    state json NOT NULL,
    PRIMARY KEY (tenant_id, run_id),
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs ON DELETE CASCADE
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);

-- Runs that still have something to do. A waiting run is a row here and nothing else.
CREATE TABLE run_queue (
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    ord bigint NOT NULL,
    priority smallint NOT NULL,
    thread_id uuid,
    concurrency_key text,
    started boolean NOT NULL DEFAULT false,
    -- The run has ended; the lease is kept for calls that are still out.
    ended boolean NOT NULL DEFAULT false,
    -- Needs a server at once, whatever the limits: it was cancelled.
    urgent boolean NOT NULL DEFAULT false,
    -- Needs a server from then on; null: not before something comes in.
    wake_at timestamptz,
    -- Its time is over then, also while it is queued.
    expires_at timestamptz,
    lease_owner uuid,
    lease_until timestamptz,
    epoch bigint NOT NULL DEFAULT 0,
    deaths integer NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, run_id),
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs ON DELETE CASCADE,
    CONSTRAINT a_lease_has_an_end CHECK ((lease_owner IS NULL) = (lease_until IS NULL))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX run_queue_due ON run_queue (tenant_id, priority DESC, wake_at) WHERE lease_owner IS NULL AND wake_at IS NOT NULL;
CREATE INDEX run_queue_urgent ON run_queue (tenant_id) WHERE urgent AND lease_owner IS NULL;
CREATE INDEX run_queue_leases ON run_queue (lease_until) WHERE lease_owner IS NOT NULL;
CREATE INDEX run_queue_threads ON run_queue (tenant_id, thread_id, ord) WHERE thread_id IS NOT NULL;
CREATE INDEX run_queue_keys ON run_queue (tenant_id, concurrency_key, ord) WHERE concurrency_key IS NOT NULL;

-- What came in from outside and isn't dealt with yet.
CREATE TABLE inbox (
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    number bigint NOT NULL,
    body json NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, run_id, number),
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs ON DELETE CASCADE
);

CREATE TABLE messages (
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    seq bigint NOT NULL,
    message_id uuid NOT NULL,
    role text NOT NULL CHECK (role IN ('system', 'user', 'assistant', 'tool')),
    content text NOT NULL,
    tool_calls json,
    tool_call_id uuid,
    step integer,
    extra json,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, run_id, seq),
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs ON DELETE CASCADE
);

CREATE TABLE steps (
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    number integer NOT NULL,
    context json NOT NULL,
    model json,
    failures jsonb NOT NULL DEFAULT '[]',
    started_at timestamptz NOT NULL,
    finished_at timestamptz,
    PRIMARY KEY (tenant_id, run_id, number),
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs ON DELETE CASCADE
) WITH (fillfactor = 80);

CREATE TABLE calls (
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    step integer NOT NULL,
    index integer NOT NULL,
    call_id uuid NOT NULL,
    model_call_id text,
    tool_name text NOT NULL,
    input json NOT NULL,
    input_hash text NOT NULL,
    original_input json,
    validation text NOT NULL
        CHECK (validation IN ('ok', 'unknown_tool', 'malformed_arguments', 'schema_violation', 'over_limit')),
    client boolean NOT NULL,
    decision json,
    -- The client's answer, the first that came.
    submitted json,
    result json,
    ledger_id uuid,
    PRIMARY KEY (tenant_id, run_id, step, index),
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs ON DELETE CASCADE
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX calls_by_id ON calls (tenant_id, call_id);

CREATE TABLE ledger (
    tenant_id uuid NOT NULL,
    ledger_id uuid NOT NULL,
    run_id uuid NOT NULL,
    call_id uuid NOT NULL,
    step integer NOT NULL,
    tool_name text NOT NULL,
    input_hash text NOT NULL,
    idempotency_key text NOT NULL,
    business_key boolean NOT NULL,
    writes boolean NOT NULL,
    status text NOT NULL CHECK (status IN ('started', 'succeeded', 'failed', 'uncertain')),
    side_effect text NOT NULL CHECK (side_effect IN ('none', 'possible', 'committed')),
    attempts integer NOT NULL CHECK (attempts > 0),
    error_code text,
    resolution json,
    -- Known at the latest then, if its server lives.
    until timestamptz NOT NULL,
    started_at timestamptz NOT NULL,
    finished_at timestamptz,
    PRIMARY KEY (tenant_id, ledger_id),
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs ON DELETE CASCADE,
    CONSTRAINT open_entries_have_no_end CHECK ((status = 'started') = (finished_at IS NULL)),
    CONSTRAINT uncertain_means_possible CHECK (status <> 'uncertain' OR side_effect = 'possible'),
    CONSTRAINT only_writes_have_effects CHECK (writes OR side_effect = 'none' OR status = 'started'),
    CONSTRAINT success_is_clear CHECK (status <> 'succeeded' OR side_effect = CASE WHEN writes THEN 'committed' ELSE 'none' END)
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX ledger_one_a_call ON ledger (tenant_id, call_id);
CREATE UNIQUE INDEX ledger_business_keys ON ledger (tenant_id, tool_name, idempotency_key) WHERE business_key;
CREATE INDEX ledger_by_run ON ledger (tenant_id, run_id, started_at);
CREATE INDEX ledger_open ON ledger (until) WHERE status = 'started';

CREATE SEQUENCE approvals_ord;
CREATE TABLE approvals (
    tenant_id uuid NOT NULL,
    approval_id uuid NOT NULL,
    ord bigint NOT NULL DEFAULT nextval('approvals_ord'),
    run_id uuid NOT NULL,
    call_id uuid,
    step integer NOT NULL,
    kind text NOT NULL CHECK (kind IN ('tool_call', 'uncertain_effect', 'budget')),
    tool_name text,
    input_hash text,
    risk text,
    reason text NOT NULL,
    status text NOT NULL CHECK (status IN ('pending', 'approved', 'denied', 'expired', 'cancelled')),
    required integer NOT NULL CHECK (required > 0),
    votes jsonb NOT NULL DEFAULT '[]',
    -- approve, deny or answer, once it is decided.
    decision text CHECK (decision IN ('approve', 'deny', 'answer')),
    edited_input json,
    expires_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    decided_at timestamptz,
    decided_by text,
    PRIMARY KEY (tenant_id, approval_id),
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs ON DELETE CASCADE,
    CONSTRAINT pending_is_undecided CHECK ((status = 'pending') = (decided_at IS NULL)),
    CONSTRAINT decided_by_somebody CHECK ((status = 'pending') = (decided_by IS NULL))
) WITH (fillfactor = 80);
CREATE INDEX approvals_newest ON approvals (tenant_id, ord DESC);
CREATE INDEX approvals_inbox ON approvals (tenant_id, status, ord DESC);
CREATE INDEX approvals_by_run ON approvals (tenant_id, run_id, ord);
-- A decision link names the approval and no tenant.
CREATE UNIQUE INDEX approvals_by_id ON approvals (approval_id);

CREATE SEQUENCE grants_ord;
CREATE TABLE grants (
    tenant_id uuid NOT NULL REFERENCES tenants ON DELETE CASCADE,
    grant_id uuid NOT NULL,
    ord bigint NOT NULL DEFAULT nextval('grants_ord'),
    tool_name text NOT NULL,
    scope text NOT NULL CHECK (scope IN ('run', 'thread', 'agent', 'tenant')),
    -- The run, thread or agent; null for the tenant.
    scope_id uuid,
    match text NOT NULL CHECK (match IN ('tool', 'exact_input')),
    input_hash text,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    revoked_at timestamptz,
    PRIMARY KEY (tenant_id, grant_id),
    CONSTRAINT scopes_name_what_they_cover CHECK ((scope = 'tenant') = (scope_id IS NULL)),
    CONSTRAINT exact_grants_have_a_hash CHECK ((match = 'exact_input') = (input_hash IS NOT NULL))
);
CREATE INDEX grants_live ON grants (tenant_id, scope_id) WHERE revoked_at IS NULL;

CREATE TABLE artifacts (
    tenant_id uuid NOT NULL,
    artifact_id uuid NOT NULL,
    run_id uuid NOT NULL,
    call_id uuid NOT NULL,
    media_type text NOT NULL,
    bytes bigint NOT NULL,
    sha256 text NOT NULL,
    content bytea NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, artifact_id),
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs ON DELETE CASCADE
);
CREATE INDEX artifacts_by_run ON artifacts (tenant_id, run_id, created_at);

CREATE TABLE checkpoints (
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    seq bigint NOT NULL,
    step integer NOT NULL,
    state json NOT NULL,
    state_hash text NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, run_id, seq),
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs ON DELETE CASCADE
);

-- What watchers see.
CREATE TABLE events (
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    seq bigint NOT NULL,
    event_id uuid NOT NULL,
    type text NOT NULL,
    step integer,
    data json NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, run_id, seq)
) PARTITION BY RANGE (run_id);
CREATE TABLE events_default PARTITION OF events DEFAULT;

-- What happened, as the state machine was told: folding it gives the state.
CREATE TABLE journal (
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    -- The commit, and the place in it.
    seq bigint NOT NULL,
    index integer NOT NULL,
    event json NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, run_id, seq, index)
) PARTITION BY RANGE (run_id);
CREATE TABLE journal_default PARTITION OF journal DEFAULT;

-- A UUIDv7 of this moment: a random one with the time in its first 48 bits and the version's bits set.
CREATE FUNCTION uuid_v7() RETURNS uuid
LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$
    SELECT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
        PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3) FROM 1 FOR 6), 52, 1), 53, 1),
        'hex')::uuid
$$;

-- The smallest UUIDv7 of a moment.
CREATE FUNCTION uuid_floor(moment timestamptz) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT (lpad(to_hex(floor(extract(epoch FROM moment) * 1000)::bigint), 12, '0') || '00000000000000000000')::uuid $$;

-- Makes the weekly partitions from this week on, `ahead` weeks; those that stand are left. A week whose runs are in the
-- default partition already stays there.
CREATE FUNCTION make_partitions(ahead integer) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    week timestamptz;
    part text;
    parent text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('answerable.partitions', 0));
    FOR i IN 0..ahead LOOP
        week := date_trunc('week', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' + make_interval(weeks => i);
        FOREACH parent IN ARRAY ARRAY['events', 'journal'] LOOP
            part := parent || '_' || to_char(week AT TIME ZONE 'UTC', 'IYYY"w"IW');
            CONTINUE WHEN to_regclass('public.' || part) IS NOT NULL;
            BEGIN
                EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)', part, parent,
                    uuid_floor(week), uuid_floor(week + interval '1 week'));
                EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', part);
                EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', part);
            EXCEPTION WHEN check_violation THEN
                NULL;
            END;
        END LOOP;
    END LOOP;
END
$$;
SELECT make_partitions(4);
