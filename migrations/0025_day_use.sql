-- What tenants use, by the day it is used (UTC): sums that each commit keeps up, so that quotas and bills read sums and not
-- runs; and allowances, so that all servers together never ask for more of a day than there is.
--
-- None of these refers to tenants: a commit that took a share of the tenant's row here, with its run's locked, and whoever
-- deletes the tenant would wait for each other. Its deletion takes them along itself.

-- Commits wait until this migration is done, and then count themselves, whatever version their server has.
SELECT lock_tables('SHARE ROW EXCLUSIVE', 'run_states', 'runs');

-- Of all of a tenant's runs, for quotas. Runs that are committed at the same moment stand in different parts, so that they
-- don't wait for each other. Days before yesterday are dropped.
CREATE TABLE day_use (
    tenant_id uuid NOT NULL,
    day date NOT NULL,
    part smallint NOT NULL,
    tokens bigint NOT NULL,
    cost_microusd bigint NOT NULL,
    PRIMARY KEY (tenant_id, day, part)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);

-- By agent and model, for bills. Part 0 is a day that is over, summed up.
CREATE TABLE usage_days (
    tenant_id uuid NOT NULL,
    day date NOT NULL,
    -- Nil: agents that came with their runs.
    agent_id uuid NOT NULL,
    -- PROVIDER/MODEL; empty: what is no model's.
    model text NOT NULL,
    part smallint NOT NULL,
    -- Runs that were begun; and, with a model, runs that asked it for the first time.
    runs bigint NOT NULL,
    model_runs bigint NOT NULL,
    steps bigint NOT NULL,
    model_calls bigint NOT NULL,
    tool_calls bigint NOT NULL,
    input_tokens bigint NOT NULL,
    cached_input_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    cost_microusd bigint NOT NULL,
    PRIMARY KEY (tenant_id, day, agent_id, model, part)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX usage_days_in_parts ON usage_days (day) WHERE part > 0;

-- What requests to models may take that are out: at most this. Bound to a lease: one of an older epoch counts no more.
CREATE TABLE day_allowances (
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    epoch bigint NOT NULL,
    tokens bigint NOT NULL,
    cost_microusd bigint NOT NULL,
    PRIMARY KEY (tenant_id, run_id),
    FOREIGN KEY (tenant_id, run_id) REFERENCES runs ON DELETE CASCADE
);

DO $$
DECLARE
    t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['day_use', 'usage_days', 'day_allowances'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
        EXECUTE format('CREATE POLICY own_tenant ON %I TO answerable_app USING (tenant_id = app_tenant()) WITH CHECK (tenant_id = app_tenant())', t);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO answerable_app', t);
    END LOOP;
END
$$;
-- Pruning looks for days to be summed up, never at what is in them.
CREATE POLICY every_tenant ON usage_days FOR SELECT TO answerable_system USING (true);
GRANT SELECT (tenant_id, day, part) ON usage_days TO answerable_system;

-- Absurd counts of providers must not stop a commit: sums end here.
CREATE FUNCTION summed(a bigint, b bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT least(a + least(b, 4000000000000000000), 4000000000000000000) $$;

-- What a commit's bill needs of a state.
CREATE TYPE used_so_far AS (
    steps bigint, tool_calls bigint, input_tokens bigint, output_tokens bigint, cost_microusd bigint,
    cached_input_tokens bigint, model_calls bigint
);
CREATE TYPE on_bill AS (model text, targets bigint);
CREATE TYPE brought_along AS (used used_so_far);
CREATE TYPE billed_state AS (
    phase text, model json, used used_so_far, by_children used_so_far, inherited brought_along, bill on_bill
);

-- What a run took between two states, less what the runs took that its calls began: that is on their own bill. What it
-- brought along is in both.
CREATE FUNCTION taken_between(was billed_state, is_now billed_state) RETURNS used_so_far
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
    a used_so_far := was.used;
    b used_so_far := is_now.used;
    c used_so_far := was.by_children;
    d used_so_far := is_now.by_children;
BEGIN
    RETURN ROW(
        b.steps - a.steps,
        b.tool_calls - a.tool_calls,
        greatest((b.input_tokens - coalesce(d.input_tokens, 0)) - (a.input_tokens - coalesce(c.input_tokens, 0)), 0),
        greatest((b.output_tokens - coalesce(d.output_tokens, 0)) - (a.output_tokens - coalesce(c.output_tokens, 0)), 0),
        greatest((b.cost_microusd - coalesce(d.cost_microusd, 0)) - (a.cost_microusd - coalesce(c.cost_microusd, 0)), 0),
        greatest((coalesce(b.cached_input_tokens, 0) - coalesce(d.cached_input_tokens, 0))
            - (coalesce(a.cached_input_tokens, 0) - coalesce(c.cached_input_tokens, 0)), 0),
        greatest((coalesce(b.model_calls, 0) - coalesce(a.model_calls, 0)), 0)
    )::used_so_far;
END
$$;

-- With each commit: its sums, and the end of the allowance whose request has come to its end. A transaction commits one run
-- at most, and takes these rows in this order, so nobody waits in a circle. Replays asked nobody and are not counted.
CREATE FUNCTION bill_commit() RETURNS trigger
LANGUAGE plpgsql
AS $$
DECLARE
    was billed_state := json_populate_record(NULL::billed_state, OLD.state);
    is_now billed_state := json_populate_record(NULL::billed_state, NEW.state);
    took used_so_far := taken_between(was, is_now);
    -- Who was asked is paid; a step is begun with whoever is asked next.
    paid text := coalesce((was.bill).model, (is_now.bill).model, '');
    asked text := coalesce((is_now.bill).model, '');
    begins bigint := (OLD.seq = 0)::integer;
    begins_on bigint := ((coalesce((is_now.bill).targets, 0) & ~coalesce((was.bill).targets, 0)) <> 0)::integer;
    today date := (now() AT TIME ZONE 'UTC')::date;
    own_part smallint := 1 + (get_byte(uuid_send(NEW.run_id), 15) & 15);
    run record;
BEGIN
    IF was.phase IN ('model', 'summary')
        AND (is_now.phase <> was.phase OR is_now.model::text IS DISTINCT FROM was.model::text) THEN
        DELETE FROM day_allowances WHERE tenant_id = NEW.tenant_id AND run_id = NEW.run_id;
    END IF;
    IF begins + begins_on + took.steps + took.tool_calls + took.model_calls = 0
        AND took.input_tokens = 0 AND took.output_tokens = 0 AND took.cost_microusd = 0 THEN
        RETURN NULL;
    END IF;
    SELECT agent_id, origin_kind INTO run FROM runs WHERE tenant_id = NEW.tenant_id AND run_id = NEW.run_id;
    IF run.origin_kind = 'replay' THEN RETURN NULL; END IF;

    IF took.input_tokens > 0 OR took.output_tokens > 0 OR took.cost_microusd > 0 THEN
        INSERT INTO day_use AS d (tenant_id, day, part, tokens, cost_microusd)
        VALUES (NEW.tenant_id, today, own_part, took.input_tokens + took.output_tokens, took.cost_microusd)
        ON CONFLICT (tenant_id, day, part) DO UPDATE SET
            tokens = summed(d.tokens, excluded.tokens), cost_microusd = summed(d.cost_microusd, excluded.cost_microusd);
    END IF;
    INSERT INTO usage_days AS u (tenant_id, day, agent_id, model, part, runs, model_runs, steps, model_calls, tool_calls,
        input_tokens, cached_input_tokens, output_tokens, cost_microusd)
    SELECT NEW.tenant_id, today, coalesce(run.agent_id, '00000000-0000-0000-0000-000000000000'), p.model, own_part,
        sum(p.runs), sum(p.model_runs), sum(p.steps), sum(p.model_calls), sum(p.tool_calls), sum(p.input), sum(p.cached),
        sum(p.output), sum(p.cost)
    FROM (VALUES
        ('', begins, 0, 0, 0, 0, 0, 0, 0, 0),
        (asked, 0, begins_on, took.steps, 0, 0, 0, 0, 0, 0),
        (paid, 0, 0, 0, took.model_calls, took.tool_calls, took.input_tokens, took.cached_input_tokens, took.output_tokens,
            took.cost_microusd)
    ) AS p(model, runs, model_runs, steps, model_calls, tool_calls, input, cached, output, cost)
    WHERE p.runs + p.model_runs + p.steps + p.model_calls + p.tool_calls > 0 OR p.input > 0 OR p.output > 0 OR p.cost > 0
    GROUP BY p.model ORDER BY p.model
    ON CONFLICT (tenant_id, day, agent_id, model, part) DO UPDATE SET
        runs = u.runs + excluded.runs, model_runs = u.model_runs + excluded.model_runs, steps = u.steps + excluded.steps,
        model_calls = u.model_calls + excluded.model_calls, tool_calls = u.tool_calls + excluded.tool_calls,
        input_tokens = summed(u.input_tokens, excluded.input_tokens),
        cached_input_tokens = summed(u.cached_input_tokens, excluded.cached_input_tokens),
        output_tokens = summed(u.output_tokens, excluded.output_tokens),
        cost_microusd = summed(u.cost_microusd, excluded.cost_microusd);
    RETURN NULL;
END
$$;
CREATE TRIGGER bill_commit AFTER UPDATE OF state ON run_states FOR EACH ROW EXECUTE FUNCTION bill_commit();

-- What was used before, at the day on which each run was created: that is all that is known of it. Of a run's steps each
-- model has its part, and the rest (failed attempts, summaries) is no model's. As each tenant itself, for whoever migrates
-- may see no row of these tables.
DO $$
DECLARE
    t uuid;
    tenants uuid[];
BEGIN
    PERFORM set_config('role', 'answerable_system', true);
    SELECT array_agg(tenant_id) INTO tenants FROM tenants;
    PERFORM set_config('role', 'answerable_app', true);
    FOREACH t IN ARRAY coalesce(tenants, '{}') LOOP
        PERFORM set_config('app.tenant', t::text, true);
        INSERT INTO usage_days (tenant_id, day, agent_id, model, part, runs, model_runs, steps, model_calls, tool_calls,
            input_tokens, cached_input_tokens, output_tokens, cost_microusd)
        WITH own AS MATERIALIZED (
            SELECT r.run_id, (r.created_at AT TIME ZONE 'UTC')::date AS day,
                coalesce(r.agent_id, '00000000-0000-0000-0000-000000000000') AS agent_id,
                (u.used).steps - coalesce(((u.inherited).used).steps, 0) AS steps,
                (u.used).tool_calls - coalesce(((u.inherited).used).tool_calls, 0) AS tool_calls,
                (u.used).input_tokens - coalesce(((u.inherited).used).input_tokens, 0)
                    - coalesce((u.by_children).input_tokens, 0) AS input,
                (u.used).output_tokens - coalesce(((u.inherited).used).output_tokens, 0)
                    - coalesce((u.by_children).output_tokens, 0) AS output,
                (u.used).cost_microusd - coalesce(((u.inherited).used).cost_microusd, 0)
                    - coalesce((u.by_children).cost_microusd, 0) AS cost
            FROM runs r
            JOIN run_states s ON s.tenant_id = r.tenant_id AND s.run_id = r.run_id
            CROSS JOIN LATERAL json_populate_record(NULL::billed_state, s.state) AS u
            -- A run in its first state counts when it is begun.
            WHERE r.tenant_id = t AND r.origin_kind IS DISTINCT FROM 'replay' AND s.seq > 0
        ), by_model AS (
            SELECT o.run_id, o.day, o.agent_id, m.provider || '/' || m.model AS model, 1 AS runs, count(*) AS steps,
                sum(m.attempts) AS model_calls, coalesce(sum(c.calls), 0) AS tool_calls,
                coalesce(sum(m.input_tokens), 0) AS input, coalesce(sum(m.cached_input_tokens), 0) AS cached,
                coalesce(sum(m.output_tokens), 0) AS output, coalesce(sum(m.cost_microusd), 0) AS cost
            FROM own o JOIN steps p ON p.tenant_id = t AND p.run_id = o.run_id
            CROSS JOIN LATERAL json_to_record(p.model) AS m(provider text, model text, attempts bigint, input_tokens numeric,
                cached_input_tokens numeric, output_tokens numeric, cost_microusd numeric)
            LEFT JOIN (
                SELECT run_id, step, count(*) AS calls FROM ledger WHERE tenant_id = t GROUP BY run_id, step
            ) AS c ON c.run_id = p.run_id AND c.step = p.number
            WHERE p.model IS NOT NULL
            GROUP BY o.run_id, o.day, o.agent_id, 4
        ), gone AS (
            SELECT ord, (created_at AT TIME ZONE 'UTC')::date AS day,
                coalesce(agent_id, '00000000-0000-0000-0000-000000000000') AS agent_id, steps, tool_calls, input_tokens AS input,
                output_tokens AS output, cost_microusd AS cost, models
            FROM past_usage WHERE tenant_id = t
        ), gone_by_model AS (
            SELECT g.ord, g.day, g.agent_id, m.name AS model, m.steps, m.tool_calls, m.input_tokens AS input,
                m.output_tokens AS output, m.cost_microusd AS cost
            FROM gone g CROSS JOIN LATERAL jsonb_to_recordset(g.models)
                AS m(name text, steps numeric, tool_calls numeric, input_tokens numeric, output_tokens numeric,
                     cost_microusd numeric)
        ), parts AS (
            SELECT day, agent_id, coalesce(model, '') AS model, 0 AS runs, runs AS model_runs, steps, model_calls, tool_calls,
                input, cached, output, cost
            FROM by_model
            UNION ALL
            SELECT o.day, o.agent_id, '', 1, 0, greatest(o.steps - coalesce(m.steps, 0), 0), 0,
                greatest(o.tool_calls - coalesce(m.tool_calls, 0), 0), greatest(o.input - coalesce(m.input, 0), 0), 0,
                greatest(o.output - coalesce(m.output, 0), 0), greatest(o.cost - coalesce(m.cost, 0), 0)
            FROM own o LEFT JOIN (
                SELECT run_id, sum(steps) AS steps, sum(tool_calls) AS tool_calls, sum(input) AS input, sum(output) AS output,
                    sum(cost) AS cost
                FROM by_model GROUP BY run_id) AS m ON m.run_id = o.run_id
            UNION ALL
            SELECT day, agent_id, coalesce(model, ''), 0, 1, steps, steps, tool_calls, input, 0, output, cost FROM gone_by_model
            UNION ALL
            SELECT g.day, g.agent_id, '', 1, 0, greatest(g.steps - coalesce(m.steps, 0), 0), 0,
                greatest(g.tool_calls - coalesce(m.tool_calls, 0), 0), greatest(g.input - coalesce(m.input, 0), 0), 0,
                greatest(g.output - coalesce(m.output, 0), 0), greatest(g.cost - coalesce(m.cost, 0), 0)
            FROM gone g LEFT JOIN (
                SELECT ord, sum(steps) AS steps, sum(tool_calls) AS tool_calls, sum(input) AS input, sum(output) AS output,
                    sum(cost) AS cost
                FROM gone_by_model GROUP BY ord) AS m ON m.ord = g.ord
        )
        SELECT t, day, agent_id, model, 0, sum(runs), sum(model_runs), sum(steps), coalesce(sum(model_calls), 0),
            sum(tool_calls), least(sum(input), 4e18), least(sum(cached), 4e18), least(sum(output), 4e18),
            least(sum(cost), 4e18)
        FROM parts GROUP BY day, agent_id, model;

        INSERT INTO day_use (tenant_id, day, part, tokens, cost_microusd)
        SELECT t, day, 0, least(sum(input_tokens::numeric + output_tokens), 4e18), least(sum(cost_microusd::numeric), 4e18)
        FROM usage_days WHERE tenant_id = t AND day >= (now() AT TIME ZONE 'UTC')::date GROUP BY day;
    END LOOP;
    PERFORM set_config('app.tenant', '', true);
END
$$;
RESET ROLE;

-- Asks for what a request to a model may take of its tenant's day: its input as it is estimated, and its output. Given is
-- what leaves room for all that other requests may take at most (day_allowances); it ends with the commit of what came of
-- the request, or with the lease.
--
-- `p_output`: tokens that the reply may have; null: as many as the model likes, which is taken to be `p_unbounded` at most.
-- `p_cost`: of the input and one token of output. `p_price`: of a million tokens of output; null: nobody knows.
--   answer 'given':      `output` is the most that the reply may have; null: no bound is needed
--   answer 'wait':       others may take what is left; ask again
--   answer 'tokens', 'money':  there is too little left, whatever others take; `left_s` until the next day
--   answer 'lost':       another server has the run
CREATE FUNCTION take_allowance(
    p_tenant uuid, p_run uuid, p_epoch bigint, p_input bigint, p_output bigint, p_cost bigint, p_price bigint,
    p_unbounded bigint, p_enough bigint,
    OUT answer text, OUT output bigint, OUT left_s bigint
)
LANGUAGE plpgsql
SET lock_timeout = '500ms'
AS $$
DECLARE
    moment timestamptz;
    today date;
    quota record;
    used record;
    wanted bigint := coalesce(p_output, p_unbounded);
    -- What the quotas leave for output: now, and if no other request takes anything.
    fits numeric := wanted;
    most numeric := wanted;
BEGIN
    -- One after another, so that what is left is counted and not raced for.
    PERFORM pg_advisory_xact_lock(hashtextextended('day:' || p_tenant::text, 0));
    moment := clock_timestamp();
    today := (moment AT TIME ZONE 'UTC')::date;
    left_s := ceil(extract(epoch FROM (today + 1)::timestamp AT TIME ZONE 'UTC' - moment));
    PERFORM FROM run_queue q
    WHERE q.tenant_id = p_tenant AND q.run_id = p_run AND q.epoch = p_epoch AND q.lease_owner IS NOT NULL AND NOT q.ended;
    IF NOT FOUND THEN
        answer := 'lost';
        RETURN;
    END IF;
    SELECT (quotas ->> 'max_tokens_per_day')::bigint AS tokens, (quotas ->> 'max_cost_microusd_per_day')::bigint AS cost
    INTO quota FROM tenants WHERE tenant_id = p_tenant;
    IF quota.tokens IS NULL AND quota.cost IS NULL THEN
        DELETE FROM day_allowances WHERE tenant_id = p_tenant AND run_id = p_run;
        answer := 'given';
        output := p_output;
        RETURN;
    END IF;

    -- Of one moment: a commit that ends an allowance counts what its request took.
    SELECT sum(a.tokens) AS tokens, sum(a.cost) AS cost, sum(a.others_tokens) AS others_tokens,
        sum(a.others_cost) AS others_cost, bool_or(a.is_others) AS any_other
    INTO used
    FROM (
        SELECT d.tokens::numeric AS tokens, d.cost_microusd::numeric AS cost, 0 AS others_tokens, 0 AS others_cost,
            false AS is_others
        FROM day_use d WHERE d.tenant_id = p_tenant AND d.day = today
        UNION ALL
        SELECT 0, 0, o.tokens, o.cost_microusd, true
        FROM day_allowances o
        JOIN run_queue q ON q.tenant_id = o.tenant_id AND q.run_id = o.run_id AND q.epoch = o.epoch
            AND q.lease_owner IS NOT NULL AND NOT q.ended
        WHERE o.tenant_id = p_tenant AND o.run_id <> p_run
        UNION ALL
        SELECT 0, 0, 0, 0, false
    ) AS a;

    IF quota.tokens IS NOT NULL THEN
        most := least(most, quota.tokens - used.tokens - p_input);
        fits := least(fits, quota.tokens - used.tokens - used.others_tokens - p_input);
        IF most < 1 THEN
            answer := 'tokens';
            RETURN;
        END IF;
    END IF;
    IF quota.cost IS NOT NULL AND p_price IS NOT NULL THEN
        IF used.cost + p_cost > quota.cost OR used.cost >= quota.cost THEN
            answer := 'money';
            RETURN;
        END IF;
        -- The first token is in p_cost.
        IF p_price > 0 THEN
            most := least(most, floor((quota.cost - used.cost - p_cost) * 1000000 / p_price) + 1);
            fits := least(fits, floor((quota.cost - used.cost - used.others_cost - p_cost) * 1000000 / p_price) + 1);
        END IF;
        IF used.cost + used.others_cost + p_cost > quota.cost THEN fits := 0; END IF;
    END IF;

    -- A reply that is cut short is of little use, so a small rest is given only where waiting would not make it larger.
    IF fits < least(wanted, p_enough) AND used.any_other THEN
        answer := 'wait';
        RETURN;
    END IF;
    IF fits >= wanted THEN
        output := p_output;
    ELSE
        wanted := least(fits, coalesce(p_output, p_enough))::bigint;
        output := wanted;
    END IF;
    -- Of those that count no more, some go along with each that is made.
    DELETE FROM day_allowances old USING (
        SELECT o.run_id FROM day_allowances o
        WHERE o.tenant_id = p_tenant AND NOT EXISTS (
            SELECT FROM run_queue q WHERE q.tenant_id = o.tenant_id AND q.run_id = o.run_id AND q.epoch = o.epoch AND NOT q.ended)
        LIMIT 100 FOR UPDATE SKIP LOCKED
    ) AS past
    WHERE old.tenant_id = p_tenant AND old.run_id = past.run_id;
    INSERT INTO day_allowances (tenant_id, run_id, epoch, tokens, cost_microusd)
    VALUES (p_tenant, p_run, p_epoch, p_input + wanted,
        least(p_cost + ceil((wanted - 1)::numeric * coalesce(p_price, 0) / 1000000), 4e18))
    ON CONFLICT (tenant_id, run_id) DO UPDATE
        SET epoch = excluded.epoch, tokens = excluded.tokens, cost_microusd = excluded.cost_microusd;
    answer := 'given';
END
$$;
