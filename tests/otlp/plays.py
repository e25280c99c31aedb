"""Runs of every kind, played through the public API. Each play returns the ids of its runs, which have ended."""
from far import CUT, answers, calls, held, says
from place import check
from spans import shown

CALLER_TRACE, CALLER_SPAN = "1" * 32, "2" * 16
CALLER = {"traceparent": f"00-{CALLER_TRACE}-{CALLER_SPAN}-01"}
CARD = "4111 1111 1111 1111"
SECOND_CARD = "5500 0000 0000 0004"


def retried(world):
    """A model and a tool that fail once, then a write."""
    stock = world.tool("stock", answers({"status": "down"}, 503), answers({"lamps": 3}))
    pay = world.tool("pay", answers({"paid": True}), side_effect="write")
    world.model("retried", answers({"error": {"message": "busy"}}, 503),
                calls((101, 11), ("stock", {"sku": "LAMP-1"}), ("pay", {"cents": 1200}), cached=40),
                says("Three lamps are left, and it is paid.", (131, 12)))
    return [world.start("retried", [stock, pay])], "finished"


def denied(world):
    """A policy forbids, and the model sees that."""
    refund = world.tool("refund", answers({"paid": True}), side_effect="write")
    world.model("denied", calls((102, 13), ("refund", {"cents": 9000})), says("I may not refund that.", (142, 14)))
    policy = {"rules": [{"tool": "refund", "effect": "deny", "reason": "over the limit"}]}
    return [world.start("denied", [refund], agent={"policy": policy})], "finished"


def stopped_by_denial(world):
    """A denied call ends the run."""
    refund = world.tool("refund2", answers({"paid": True}), side_effect="write")
    world.model("stopped", calls((103, 15), ("refund2", {"cents": 9000})))
    policy = {"rules": [{"tool": "refund2", "effect": "deny"}], "on_deny": "stop"}
    return [world.start("stopped", [refund], agent={"policy": policy})], "failed"


def talked(world):
    """Two runs of one conversation; a person lets the first act, and not the second."""
    thread = world.api.post("/v1/threads", {})["id"]
    pay = world.tool("order", answers({"order": 7}), side_effect="write", risk="high")
    world.model("talked", calls((104, 16), ("order", {"sku": "LAMP-1"})), says("Ordered.", (144, 17)),
                calls((174, 18), ("order", {"sku": "LAMP-2"})), says("A person refused.", (194, 19)))
    first = world.start("talked", [pay], thread_id=thread)
    world.decide(first, "approve")
    world.ended(first)
    second = world.start("talked", [pay], thread_id=thread)
    world.decide(second, "deny", reason="enough lamps")
    return [first, second], "finished"


def failed_tool(world):
    """A tool that finds nothing, a tool that isn't there, and arguments that its schema doesn't allow."""
    schema = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}
    mail = world.tool("mail", answers({"error": "no such mail"}, 404), input_schema=schema)
    world.model("failed-tool", calls((105, 21), ("mail", {"id": 1}), ("fax", {}), ("mail", {"id": "one"})),
                says("There is no such mail.", (145, 22)))
    return [world.start("failed-tool", [mail])], "finished"


def uncertain(world):
    """A write of which nobody knows whether it happened."""
    order = world.tool("ship", CUT, side_effect="write")
    world.model("uncertain", calls((106, 23), ("ship", {"order": 7})))
    return [world.start("uncertain", [order])], "failed"


def reconciled(world):
    """The same, and the far side knows."""
    find = world.tool("find", answers({"state": "applied", "result": {"order": 8}}))
    order = world.tool("ship2", CUT, side_effect="write", reconcile={"tool": "find", "input": {"key": "{{idempotency_key}}"}})
    world.model("reconciled", calls((107, 24), ("ship2", {"order": 8})), says("Shipped.", (147, 25)))
    return [world.start("reconciled", [order, find])], "finished"


def continued(world):
    """A run over its budget, and one that goes on from there."""
    stock = world.tool("stock2", answers({"lamps": 3}))
    world.model("continued", calls((108, 26), ("stock2", {"sku": "LAMP-1"})), says("Three.", (148, 27)))
    first = world.start("continued", [stock], agent={"budgets": {"max_steps": 1}})
    world.ended(first, "failed")
    more = world.api.post(f"/v1/runs/{first}/continue", {"budgets": {"max_steps": 5}})["id"]
    world.ended(world.note(more, "continued"))
    return [first, more], None


def asked_for_budget(world):
    """A person gives a run more to spend."""
    stock = world.tool("stock3", answers({"lamps": 3}))
    world.model("budget", calls((109, 28), ("stock3", {})), says("Three.", (149, 29)))
    run = world.start("budget", [stock], agent={"budgets": {"max_steps": 1, "on_exhausted": "ask"}})
    world.approval(run)
    world.api.ask("PATCH", f"/v1/runs/{run}", {"budgets": {"max_steps": 5}})
    return [run], "finished"


def cancelled(world):
    """Cancelled while a person is asked."""
    pay = world.tool("pay2", answers({"paid": True}), side_effect="write", risk="high")
    world.model("cancelled", calls((110, 31), ("pay2", {"cents": 5})))
    run = world.start("cancelled", [pay])
    world.approval(run)
    world.api.post(f"/v1/runs/{run}/cancel", {})
    return [run], "cancelled"


def answered_by_client(world):
    """The client runs the tool itself."""
    ask = {"name": "measure", "kind": "client", "side_effect": "none"}
    world.model("client", calls((111, 32), ("measure", {"what": "lamp"})), says("It is 30 cm high.", (151, 33)))
    run = world.start("client", [ask])
    call = world.ended(run, "waiting_tool")["pending_tool_calls"][0]["id"]
    result = {"tool_call_id": call, "status": "succeeded", "content": "30 cm"}
    world.api.post(f"/v1/runs/{run}/tool_results", result)
    return [run], "finished"


def given_up_by_model(world):
    """A model that takes nothing."""
    world.model("broken", answers({"error": {"message": "no"}}, 400))
    return [world.start("broken", [])], "failed"


def called(world):
    """Runs with a caller's trace: linked to it, and below it where the tenant is trusted."""
    world.model("called", says("Hello.", (112, 34)), says("Hello again.", (113, 35)))
    linked = world.start("called", [], headers=CALLER)
    world.ended(linked)
    return [linked, world.start("called", [], api=world.trusted, headers=CALLER)], "finished"


def scripted(world):
    """The provider's own script, in place of a model. It names no tokens, so the run's estimate stands."""
    stock = world.tool("stock4", answers({"lamps": 3}))
    script = [{"tool_calls": [{"name": "stock4", "arguments": {}}]}, {"final": "Three."}]
    world.api.put("/v1/providers/script", {"kind": "scripted", "script": script})
    run = world.start("by script", [stock], agent={"model": {"provider": "script", "model": "by script"}})
    used = world.ended(run)["budgets"]["used"]
    world.pay(used["input_tokens"], used["output_tokens"])
    return [run], "finished"


def told(world):
    """An agent that lets content into its spans, but not cards."""
    charge = world.tool("charge", answers({"receipt": "R-1", "cards": [{"number": CARD}, {"number": SECOND_CARD}]}),
                        side_effect="write")
    world.model("told", calls((115, 38), ("charge", {"card": {"number": CARD, "name": "Ann"}, "cents": 1200})),
                says("Charged:\n\"R-1\" ✓", (155, 39)))
    trace = {"content": True, "redact": ["/card/number", "/cards/*/number"]}
    return [world.start("told", [charge], agent={"trace": trace})], "finished"


def told_at_length(world):
    """The same with a result that is cut, so that it is no JSON any more; a call that is refused; and a long answer."""
    schema = {"properties": {"card": {"properties": {"number": {"maxLength": 4}}}}}
    log = world.tool("log", answers({"cards": [{"number": CARD}], "lines": "x" * 20_000}), input_schema=schema)
    world.model("told-at-length", calls((119, 45), ("log", {}), ("log", {"card": {"number": SECOND_CARD}})),
                says("A long answer. " * 2_000, (159, 46)))
    trace = {"content": True, "redact": ["/card/number", "/cards/*/number"]}
    return [world.start("told-at-length", [log], agent={"trace": trace})], "finished"


PLAYS = [retried, denied, stopped_by_denial, talked, failed_tool, uncertain, reconciled, continued, asked_for_budget, cancelled,
         answered_by_client, given_up_by_model, called, scripted, told,
         told_at_length]


def replayed(world, run_id):
    """Plays a run again from what was recorded: nothing happens, so there is nothing to tell anybody."""
    replay = world.api.post(f"/v1/runs/{run_id}/replay", {"tools": "recorded"})["id"]
    check(world.api.run(replay, "finished")["replay"]["first_difference"] is None, "a replay went another way")
    check(shown(world.api.trace(replay)), "a replay has no trace of its own")


def play_all(world):
    """All of them; gives the ids of the runs."""
    runs = []
    for play in PLAYS:
        made, status = play(world)
        for run_id in made:
            if status:
                world.ended(run_id, status)
        runs += made
    replayed(world, runs[0])
    return runs


def killed(world, before_kill):
    """Runs whose server is killed: while a tool works, and while a model thinks. Each goes on at the next server.

    `before_kill` gets the tokens that were paid for by then.
    """
    paid = dict(world.tokens)
    slow = world.tool("slow", held(answers({"late": True})), answers({"lamps": 3}))
    first = calls((116, 41), ("slow", {}))
    world.model("killed-in-tool", first, says("Three.", (156, 42)))
    world.model("killed-in-model", held(says("Too late.", (117, 43))), says("In time.", (118, 44)), lost=(0,))
    runs = [world.start("killed-in-tool", [slow])]
    world.far.reached("slow")
    runs.append(world.start("killed-in-model", []))
    world.far.reached("killed-in-model")
    before_kill({kind: paid[kind] + tokens for kind, tokens in zip(("input", "output"), first["tokens"])})
    world.server.kill()
    world.far.let_go()
    world.server.start()
    for run_id in runs:
        check(world.ended(run_id)["attempt"] == 2, "a run did not lose its server")
    return runs
