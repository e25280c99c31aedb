-- What calls are judged by: policies of tenants and of runs, remembered approvals, and who decides; and that nothing begins
-- under other rules than those it was judged by last.

-- The number of a tenant's rules rises with every change that may forbid what was allowed: a policy, a grant that is taken
-- back, a key that is revoked. No row is number 0.
CREATE TABLE tenant_rules (
    tenant_id uuid PRIMARY KEY REFERENCES tenants ON DELETE CASCADE,
    number bigint NOT NULL
);

-- Every policy that a tenant has had.
CREATE TABLE tenant_policy_versions (
    tenant_id uuid NOT NULL REFERENCES tenants ON DELETE CASCADE,
    version integer NOT NULL,
    policy json NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    created_by text,
    PRIMARY KEY (tenant_id, version)
);
-- An owner of the tables who is no superuser sees no row of a table whose row-level security is forced.
ALTER TABLE tenant_policies NO FORCE ROW LEVEL SECURITY;
INSERT INTO tenant_policy_versions (tenant_id, version, policy, created_at)
SELECT tenant_id, version, policy, updated_at FROM tenant_policies;
ALTER TABLE tenant_policies FORCE ROW LEVEL SECURITY;

DO $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['tenant_rules', 'tenant_policy_versions'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY own_tenant ON %I TO answerable_app USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant())', t);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO answerable_app', t);
    END LOOP;
END
$$;
REVOKE UPDATE, DELETE ON tenant_policy_versions FROM answerable_app;

-- A run's own policy, and all who count as having started it: a key, and whoever it spoke for.
ALTER TABLE runs ADD COLUMN policy json;
ALTER TABLE runs ADD COLUMN creators text[] NOT NULL DEFAULT '{}';

ALTER TABLE approvals ADD COLUMN tool_version text;
ALTER TABLE approvals ADD COLUMN self_approval boolean NOT NULL DEFAULT true;
-- The hash that was approved: of an edited input where there is one.
ALTER TABLE approvals ADD COLUMN approved_hash text;
-- Used up by the ledger entry that it let begin, or void because what it was given for changed before.
ALTER TABLE approvals ADD COLUMN used_at timestamptz;
ALTER TABLE approvals ADD COLUMN voided_at timestamptz;
ALTER TABLE approvals ADD COLUMN void_reason text;
ALTER TABLE approvals ADD CONSTRAINT void_ones_say_why CHECK ((voided_at IS NULL) = (void_reason IS NULL));
ALTER TABLE approvals ADD CONSTRAINT void_ones_are_not_used CHECK (used_at IS NULL OR voided_at IS NULL);
ALTER TABLE approvals ADD CONSTRAINT only_approved_ones_are_used CHECK (used_at IS NULL OR status = 'approved');

-- An entry that began by an approval; no other may begin by the same.
ALTER TABLE ledger ADD COLUMN approval_id uuid;
CREATE UNIQUE INDEX ledger_approvals ON ledger (tenant_id, approval_id) WHERE approval_id IS NOT NULL;

-- A grant answers for no more deciders than it has, and for no higher risk than it was given for. A decider counts as long as
-- the key is valid that they decided with; it stands at the same place, null where there was none. An older server writes
-- neither: then whoever made the grant is its decider.
ALTER TABLE grants ADD COLUMN deciders text[] NOT NULL DEFAULT '{}';
ALTER TABLE grants ADD COLUMN decider_keys uuid[] NOT NULL DEFAULT '{}';
ALTER TABLE grants ADD CONSTRAINT each_decider_has_a_place CHECK (cardinality(deciders) = cardinality(decider_keys));
ALTER TABLE grants ADD COLUMN max_risk text NOT NULL DEFAULT 'high' CHECK (max_risk IN ('low', 'medium', 'high'));
ALTER TABLE grants ADD COLUMN approval_id uuid;
ALTER TABLE grants ADD COLUMN revoked_by text;

-- Whoever changes a tenant's rules takes this lock alone, whoever begins calls takes it together with others: when the change
-- is answered for, nothing begins any more that only the old rules allowed.
CREATE FUNCTION rules_lock(p_tenant uuid) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT hashtextextended('rules:' || p_tenant::text, 0) $$;

-- The input that an approval asks about: the one that its hash is of. People who are asked anew about a call that was edited
-- are asked about the edit.
CREATE FUNCTION asked_input(a approvals, c calls) RETURNS json
LANGUAGE sql STABLE
AS $$
    SELECT CASE
        WHEN a.kind <> 'tool_call' OR a.input_hash = c.input_hash THEN c.input
        ELSE coalesce(
            (SELECT e.edited_input FROM approvals e
             WHERE e.tenant_id = a.tenant_id AND e.run_id = a.run_id AND e.call_id = a.call_id
               AND e.approved_hash = a.input_hash AND e.edited_input IS NOT NULL
             LIMIT 1),
            c.original_input, c.input)
    END
$$;

-- commit_run as before, and: calls begin only under the tenant's rules of this moment, and by an approval only if it was
-- given for just this call and input, isn't void, and isn't used up; it is used up by that.
GRANT CREATE ON SCHEMA public TO answerable_app;
SET LOCAL ROLE answerable_app;
CREATE OR REPLACE FUNCTION commit_run(
    p_tenant uuid, p_run uuid, p_epoch bigint, p_seq bigint, p_known_inbox bigint, p_commit uuid, p json
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp
AS $$
DECLARE
    held record;
    taken uuid;
    moment timestamptz := to_timestamp((p ->> 'at')::bigint / 1000.0);
    first_event bigint;
    told integer := 0;
    needed smallint := (p #>> '{state,version}')::smallint;
BEGIN
    PERFORM set_config('app.tenant', p_tenant::text, true);

    SELECT epoch, seq, last_commit, event_seq, inbox_seq INTO held
    FROM run_states WHERE tenant_id = p_tenant AND run_id = p_run FOR UPDATE;
    -- The same commit sent twice, because the answer to the first was lost, is one.
    IF held.seq = p_seq + 1 AND held.last_commit = p_commit AND held.epoch = p_epoch THEN RETURN 'stored'; END IF;
    IF held IS NULL OR held.epoch <> p_epoch OR held.seq <> p_seq THEN RETURN 'lost'; END IF;
    IF held.inbox_seq > p_known_inbox THEN RETURN 'inbox'; END IF;

    IF p -> 'ledger_opened' IS NOT NULL AND p ->> 'rules' IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock_shared(rules_lock(p_tenant));
        IF coalesce((SELECT number FROM tenant_rules WHERE tenant_id = p_tenant), 0) <> (p ->> 'rules')::bigint THEN
            RETURN 'rules';
        END IF;
        IF EXISTS (
            SELECT FROM json_to_recordset(p -> 'ledger_opened') AS n(call_id uuid, approval_id uuid, input_hash text)
            LEFT JOIN approvals a ON a.tenant_id = p_tenant AND a.approval_id = n.approval_id
                AND a.run_id = p_run AND a.call_id = n.call_id
            WHERE n.approval_id IS NOT NULL
                AND (a.status = 'approved' AND a.decision = 'approve' AND a.used_at IS NULL AND a.voided_at IS NULL
                     -- A server of an older version wrote no hash of what it approved; of an edit none is known then.
                     AND (coalesce(a.approved_hash, a.input_hash) = n.input_hash
                          OR (a.approved_hash IS NULL AND a.edited_input IS NOT NULL))) IS NOT TRUE
        ) THEN RETURN 'approval'; END IF;
    END IF;

    IF p -> 'ledger_opened' IS NOT NULL THEN
        SELECT n.call_id INTO taken
        FROM json_to_recordset(p -> 'ledger_opened')
            AS n(call_id uuid, tool_name text, idempotency_key text, business_key boolean)
        JOIN ledger l ON l.tenant_id = p_tenant AND l.tool_name = n.tool_name
            AND l.idempotency_key = n.idempotency_key AND l.business_key
        WHERE n.business_key LIMIT 1;
        IF taken IS NULL THEN
            -- Of several calls in this very commit the first has it.
            SELECT n.call_id INTO taken
            FROM (SELECT call_id, row_number() OVER (PARTITION BY tool_name, idempotency_key ORDER BY call_id) AS nth
                  FROM json_to_recordset(p -> 'ledger_opened')
                      AS o(call_id uuid, tool_name text, idempotency_key text, business_key boolean)
                  WHERE business_key) AS n
            WHERE n.nth > 1 LIMIT 1;
        END IF;
        IF taken IS NOT NULL THEN RETURN 'key:' || taken; END IF;
    END IF;

    first_event := held.event_seq;
    UPDATE run_states SET seq = p_seq + 1, last_commit = p_commit, state = p -> 'state',
        event_seq = event_seq + coalesce(json_array_length(p -> 'events'), 0)
    WHERE tenant_id = p_tenant AND run_id = p_run;

    INSERT INTO journal (tenant_id, run_id, seq, index, event, spans, at)
    SELECT p_tenant, p_run, p_seq + 1, e.ordinality, e.event,
        -- JSON's null is none.
        CASE WHEN json_typeof(e.spans) = 'array' THEN e.spans END, moment
    FROM ROWS FROM (json_array_elements(p -> 'journal'), json_array_elements(coalesce(p -> 'spans', '[]')))
        WITH ORDINALITY AS e(event, spans, ordinality)
    -- There are never more lists of spans than events.
    WHERE e.event IS NOT NULL;
    IF (p ->> 'export')::boolean THEN
        INSERT INTO span_outbox (tenant_id, run_id, seq, created_at) VALUES (p_tenant, p_run, p_seq + 1, moment);
    END IF;

    IF p -> 'events' IS NOT NULL THEN
        INSERT INTO events (tenant_id, run_id, seq, event_id, type, step, data, at)
        SELECT p_tenant, p_run, first_event + row_number() OVER (), e.event_id, e.type, e.step, e.data, moment
        FROM json_to_recordset(p -> 'events') AS e(event_id uuid, type text, step integer, data json);
    END IF;

    IF p -> 'messages' IS NOT NULL THEN
        PERFORM write_messages(p_tenant, p_run, p -> 'messages', moment);
    END IF;

    IF p -> 'steps_opened' IS NOT NULL THEN
        INSERT INTO steps (tenant_id, run_id, number, context, started_at)
        SELECT p_tenant, p_run, s.number, s.context, moment
        FROM json_to_recordset(p -> 'steps_opened') AS s(number integer, context json)
        ON CONFLICT (tenant_id, run_id, number) DO UPDATE SET context = excluded.context;
    END IF;
    IF p -> 'step_models' IS NOT NULL THEN
        UPDATE steps SET model = s.model, failures = steps.failures || s.failures
        FROM json_to_recordset(p -> 'step_models') AS s(number integer, model json, failures jsonb)
        WHERE tenant_id = p_tenant AND run_id = p_run AND steps.number = s.number;
    END IF;

    IF p -> 'calls_opened' IS NOT NULL THEN
        INSERT INTO calls (tenant_id, run_id, step, index, call_id, model_call_id, tool_name, input, input_hash, validation, client)
        SELECT p_tenant, p_run, c.step, c.index, c.call_id, c.model_call_id, c.tool_name, c.input, c.input_hash, c.validation, c.client
        FROM json_to_recordset(p -> 'calls_opened')
            AS c(step integer, index integer, call_id uuid, model_call_id text, tool_name text, input json, input_hash text,
                 validation text, client boolean);
    END IF;
    IF p -> 'calls_changed' IS NOT NULL THEN
        UPDATE calls SET
            decision = coalesce(c.decision, calls.decision),
            original_input = CASE WHEN c.input IS NULL THEN calls.original_input ELSE coalesce(calls.original_input, calls.input) END,
            input = coalesce(c.input, calls.input),
            input_hash = coalesce(c.input_hash, calls.input_hash),
            result = coalesce(c.result, calls.result),
            ledger_id = coalesce(c.ledger_id, calls.ledger_id)
        FROM json_to_recordset(p -> 'calls_changed')
            AS c(call_id uuid, decision json, input json, input_hash text, result json, ledger_id uuid)
        WHERE calls.tenant_id = p_tenant AND calls.call_id = c.call_id;
    END IF;

    IF p -> 'ledger_opened' IS NOT NULL THEN
        INSERT INTO ledger (tenant_id, ledger_id, run_id, call_id, step, tool_name, input_hash, idempotency_key, business_key,
            writes, status, side_effect, attempts, until, started_at, approval_id)
        SELECT p_tenant, l.ledger_id, p_run, l.call_id, l.step, l.tool_name, l.input_hash, l.idempotency_key, l.business_key,
            l.writes, 'started', CASE WHEN l.writes THEN 'possible' ELSE 'none' END, 1, l.until, moment, l.approval_id
        FROM json_to_recordset(p -> 'ledger_opened')
            AS l(ledger_id uuid, call_id uuid, step integer, tool_name text, input_hash text, idempotency_key text,
                 business_key boolean, writes boolean, until timestamptz, approval_id uuid);
        UPDATE approvals SET used_at = moment
        FROM json_to_recordset(p -> 'ledger_opened') AS n(approval_id uuid)
        WHERE approvals.tenant_id = p_tenant AND approvals.approval_id = n.approval_id;
    END IF;
    IF p -> 'ledger_changed' IS NOT NULL THEN
        UPDATE ledger SET
            attempts = coalesce(l.attempts, ledger.attempts),
            until = coalesce(l.until, ledger.until),
            status = coalesce(l.status, ledger.status),
            side_effect = coalesce(l.side_effect, ledger.side_effect),
            error_code = CASE WHEN l.status IS NULL THEN ledger.error_code ELSE l.error_code END,
            finished_at = CASE WHEN l.status IS NULL THEN ledger.finished_at ELSE moment END
        FROM json_to_recordset(p -> 'ledger_changed')
            AS l(ledger_id uuid, attempts integer, until timestamptz, status text, side_effect text, error_code text)
        -- What a person settled stays as they said, and what is known as it is known.
        WHERE ledger.tenant_id = p_tenant AND ledger.ledger_id = l.ledger_id AND ledger.resolution IS NULL
          AND NOT (ledger.status = 'succeeded' AND l.status = 'uncertain');
    END IF;
    IF p -> 'effects_taken' IS NOT NULL THEN
        UPDATE inherited_effects SET taken_by = t.call_id
        FROM json_to_recordset(p -> 'effects_taken') AS t(ledger_id uuid, call_id uuid)
        WHERE inherited_effects.tenant_id = p_tenant AND inherited_effects.run_id = p_run
          AND inherited_effects.ledger_id = t.ledger_id;
    END IF;

    IF p -> 'approvals_opened' IS NOT NULL THEN
        INSERT INTO approvals (tenant_id, approval_id, run_id, call_id, step, kind, tool_name, input_hash, risk, reason, status,
            required, expires_at, created_at, tool_version, self_approval)
        SELECT p_tenant, a.approval_id, p_run, a.call_id, a.step, a.kind, a.tool_name, a.input_hash, a.risk, a.reason, 'pending',
            a.required, a.expires_at, moment, a.tool_version, coalesce(a.self_approval, true)
        FROM json_to_recordset(p -> 'approvals_opened')
            AS a(approval_id uuid, call_id uuid, step integer, kind text, tool_name text, input_hash text, risk text, reason text,
                 required integer, expires_at timestamptz, tool_version text, self_approval boolean);
    END IF;
    IF p -> 'approvals_closed' IS NOT NULL THEN
        UPDATE approvals SET status = a.status, decided_at = moment, decided_by = a.by
        FROM json_to_recordset(p -> 'approvals_closed') AS a(approval_id uuid, status text, by text)
        WHERE approvals.tenant_id = p_tenant AND approvals.approval_id = a.approval_id AND approvals.status = 'pending';
    END IF;

    IF p -> 'approvals_voided' IS NOT NULL THEN
        UPDATE approvals SET voided_at = moment, void_reason = v.reason
        FROM json_to_recordset(p -> 'approvals_voided') AS v(approval_id uuid, reason text)
        WHERE approvals.tenant_id = p_tenant AND approvals.approval_id = v.approval_id AND approvals.used_at IS NULL;
    END IF;

    IF p -> 'artifacts' IS NOT NULL THEN
        INSERT INTO artifacts (tenant_id, artifact_id, run_id, call_id, media_type, bytes, sha256, content, created_at)
        SELECT p_tenant, a.artifact_id, p_run, a.call_id, a.media_type, octet_length(decode(a.content, 'base64')), a.sha256,
            decode(a.content, 'base64'), moment
        FROM json_to_recordset(p -> 'artifacts')
            AS a(artifact_id uuid, call_id uuid, media_type text, sha256 text, content text);
    END IF;

    IF p -> 'checkpoints' IS NOT NULL THEN
        INSERT INTO checkpoints (tenant_id, run_id, seq, step, state, state_hash, created_at)
        SELECT p_tenant, p_run, p_seq + 1, c.step, p -> 'state', c.state_hash, moment
        FROM json_to_recordset(p -> 'checkpoints') AS c(step integer, state_hash text);
    END IF;

    IF p -> 'steps_closed' IS NOT NULL THEN
        UPDATE steps SET finished_at = moment
        FROM json_array_elements_text(p -> 'steps_closed') AS closed
        WHERE tenant_id = p_tenant AND run_id = p_run AND number = closed::integer AND finished_at IS NULL;
    END IF;

    IF p -> 'outbox' IS NOT NULL THEN
        INSERT INTO deliveries (tenant_id, delivery_id, webhook_id, run_id, type, body, next_attempt_at, created_at)
        SELECT p_tenant, uuid_v7(), w.webhook_id, p_run, o.type,
            CASE WHEN w.include_input THEN o.body_with_input ELSE o.body END, moment, moment
        FROM json_to_recordset(p -> 'outbox') AS o(type text, body text, body_with_input text)
        JOIN webhooks w ON w.tenant_id = p_tenant AND w.disabled_at IS NULL AND webhook_hears(w.events, o.type);
        GET DIAGNOSTICS told = ROW_COUNT;
    END IF;

    IF p -> 'consumed' IS NOT NULL THEN
        DELETE FROM inbox USING json_array_elements_text(p -> 'consumed') AS done
        WHERE tenant_id = p_tenant AND run_id = p_run AND number = done::bigint;
    END IF;

    -- The wide row changes only with the status.
    UPDATE runs SET status = p ->> 'status', stop_reason = p ->> 'stop_reason', final_answer = p ->> 'final_answer',
        error = CASE WHEN json_typeof(p -> 'error') = 'object' THEN p -> 'error' END,
        started_at = CASE WHEN p ->> 'status' <> 'queued' AND (p ->> 'started')::boolean THEN coalesce(started_at, moment) ELSE started_at END,
        finished_at = CASE WHEN p ->> 'stop_reason' IS NOT NULL THEN moment END
    WHERE tenant_id = p_tenant AND run_id = p_run AND status <> p ->> 'status';

    CASE p ->> 'release'
        WHEN 'keep' THEN
            UPDATE run_queue SET started = started OR p ->> 'status' <> 'queued', needs = greatest(needs, needed)
            WHERE tenant_id = p_tenant AND run_id = p_run
                AND ((NOT started AND p ->> 'status' <> 'queued') OR needs < needed);
        WHEN 'park' THEN
            UPDATE run_queue SET lease_owner = NULL, lease_until = NULL, urgent = false,
                started = started OR p ->> 'status' <> 'queued', needs = greatest(needs, needed),
                wake_at = to_timestamp((p ->> 'wake_at')::bigint / 1000.0),
                expires_at = to_timestamp((p ->> 'expires_at')::bigint / 1000.0)
            WHERE tenant_id = p_tenant AND run_id = p_run;
        WHEN 'end' THEN
            DELETE FROM run_queue WHERE tenant_id = p_tenant AND run_id = p_run;
        WHEN 'end_late' THEN
            UPDATE run_queue SET ended = true, urgent = false, wake_at = NULL WHERE tenant_id = p_tenant AND run_id = p_run;
    END CASE;
    RETURN CASE WHEN told > 0 THEN 'told' ELSE 'stored' END;
END
$$;

-- The next number of a tenant's rules, whoever changed them: a server that knows nothing of the number, too. A tenant's row is
-- locked before all else, as everywhere; a tenant that is gone has no rules.
CREATE FUNCTION rules_change() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = public, pg_temp
AS $$
DECLARE
    before text := current_setting('app.tenant', true);
    changed uuid := coalesce(NEW.tenant_id, OLD.tenant_id);
BEGIN
    PERFORM set_config('app.tenant', changed::text, true);
    PERFORM FROM tenants WHERE tenant_id = changed FOR KEY SHARE;
    IF FOUND THEN
        PERFORM pg_advisory_xact_lock(rules_lock(changed));
        INSERT INTO tenant_rules AS r (tenant_id, number) VALUES (changed, 1)
        ON CONFLICT (tenant_id) DO UPDATE SET number = r.number + 1;
    END IF;
    PERFORM set_config('app.tenant', coalesce(before, ''), true);
    RETURN NULL;
END
$$;
RESET ROLE;
REVOKE CREATE ON SCHEMA public FROM answerable_app;

-- Last in the transaction: whoever has a new number waits for calls that are just beginning, and keeps others from beginning.
CREATE CONSTRAINT TRIGGER rules_change AFTER INSERT OR UPDATE OR DELETE ON tenant_policies
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION rules_change();
CREATE CONSTRAINT TRIGGER rules_change AFTER UPDATE ON grants
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((NEW.revoked_at, NEW.expires_at) IS DISTINCT FROM (OLD.revoked_at, OLD.expires_at))
    EXECUTE FUNCTION rules_change();
CREATE CONSTRAINT TRIGGER rules_change AFTER UPDATE ON api_keys
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((NEW.revoked_at, NEW.expires_at) IS DISTINCT FROM (OLD.revoked_at, OLD.expires_at))
    EXECUTE FUNCTION rules_change();
CREATE CONSTRAINT TRIGGER rules_change_when_gone AFTER DELETE ON api_keys
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION rules_change();
