-- Messages that are more than text: pieces of them, a pin, what they sum up.

ALTER TABLE messages ADD COLUMN more json CHECK (json_typeof(more) = 'object');

-- commit_run as before, but messages are written in one place, for whoever writes them; and what a run needs of its server
-- never falls again: something in its inbox may need more than its state does.
GRANT CREATE ON SCHEMA public TO answerable_app;
SET LOCAL ROLE answerable_app;
CREATE FUNCTION write_messages(p_tenant uuid, p_run uuid, p_messages json, p_at timestamptz) RETURNS void
LANGUAGE sql
AS $$
    INSERT INTO messages
        (tenant_id, run_id, seq, message_id, role, content, tool_calls, tool_call_id, step, extra, more, created_at)
    SELECT p_tenant, p_run, m.seq, m.message_id, m.role, m.content, m.tool_calls, m.tool_call_id, m.step, m.extra, m.more, p_at
    FROM json_to_recordset(p_messages)
        AS m(seq bigint, message_id uuid, role text, content text, tool_calls json, tool_call_id uuid, step integer,
             extra json, more json);
$$;

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
            writes, status, side_effect, attempts, until, started_at)
        SELECT p_tenant, l.ledger_id, p_run, l.call_id, l.step, l.tool_name, l.input_hash, l.idempotency_key, l.business_key,
            l.writes, 'started', CASE WHEN l.writes THEN 'possible' ELSE 'none' END, 1, l.until, moment
        FROM json_to_recordset(p -> 'ledger_opened')
            AS l(ledger_id uuid, call_id uuid, step integer, tool_name text, input_hash text, idempotency_key text,
                 business_key boolean, writes boolean, until timestamptz);
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
            required, expires_at, created_at)
        SELECT p_tenant, a.approval_id, p_run, a.call_id, a.step, a.kind, a.tool_name, a.input_hash, a.risk, a.reason, 'pending',
            a.required, a.expires_at, moment
        FROM json_to_recordset(p -> 'approvals_opened')
            AS a(approval_id uuid, call_id uuid, step integer, kind text, tool_name text, input_hash text, risk text, reason text,
                 required integer, expires_at timestamptz);
    END IF;
    IF p -> 'approvals_closed' IS NOT NULL THEN
        UPDATE approvals SET status = a.status, decided_at = moment, decided_by = a.by
        FROM json_to_recordset(p -> 'approvals_closed') AS a(approval_id uuid, status text, by text)
        WHERE approvals.tenant_id = p_tenant AND approvals.approval_id = a.approval_id AND approvals.status = 'pending';
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
RESET ROLE;
REVOKE CREATE ON SCHEMA public FROM answerable_app;
