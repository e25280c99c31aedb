"""A shop's agents: tenants on a server, with a model and tools beside them."""
from far import Far
from place import until

PRICES = {"input_microusd_per_mtok": 2_000_000, "output_microusd_per_mtok": 8_000_000, "cached_input_microusd_per_mtok": 500_000}


class World:
    """What plays act in. `tokens` counts what models were paid for, by what they said themselves."""

    def __init__(self, server):
        self.server, self.far = server, Far()
        self.tokens = {"input": 0, "output": 0}
        # Model → the tokens of its replies, in their order; run → its model.
        self.replies, self.models = {}, {}
        self.api = server.tenant("shop")
        self.trusted = server.tenant("shop of a caller", trust_traceparent=True)
        self.api_of = {}

    def provider(self, api, model):
        """The provider `main`, with this model's price."""
        spec = {"kind": "openai_chat", "base_url": f"{self.far.base}/v1", "api_key": "sk-far", "prices": {model: PRICES}}
        api.put("/v1/providers/main", spec)

    def pay(self, given, said):
        """These tokens are paid for, in and out."""
        self.tokens["input"] += given
        self.tokens["output"] += said

    def model(self, model, *replies, lost=()):
        """Scripts a model of the far side. Nobody hears the replies at the places `lost`."""
        self.far.script(model, *replies)
        self.replies[model] = [reply["tokens"] for at, reply in enumerate(replies) if at not in lost and "tokens" in reply]
        for tokens in self.replies[model]:
            self.pay(*tokens)

    def tool(self, name, *answers, **more):
        """A tool of the far side and its answers."""
        self.far.script(name, *answers)
        spec = {"name": name, "description": f"The shop's {name}.", "kind": "http",
                "http": {"url": f"{self.far.base}/tools/{name}"}, "side_effect": "none",
                "retry": {"max_attempts": 3, "backoff_ms": 20}}
        return {**spec, **more}

    def start(self, model, tools, api=None, agent=None, headers=None, **body):
        """Starts a run of an agent that asks `model`."""
        api = api or self.api
        self.provider(api, model)
        spec = {"name": "shop clerk", "instructions": "You answer the mail of a small shop.", "tools": tools,
                "model": {"provider": "main", "model": model, "temperature": 0.2, "max_output_tokens": 512,
                          "retry": {"max_attempts": 3, "backoff_ms": 20}}}
        run = api.post("/v1/runs", {"agent": {**spec, **(agent or {})}, "input": "A customer writes.", **body}, headers)
        return self.note(run["id"], model, api)

    def note(self, run_id, model, api=None):
        """Remembers a run of `model`."""
        self.models[run_id], self.api_of[run_id] = model, api or self.api
        return run_id

    def ended(self, run_id, wanted="finished"):
        return self.api_of[run_id].run(run_id, wanted)

    def approval(self, run_id):
        """What the run asks people."""
        self.ended(run_id, "waiting_approval")
        asked = until("an approval", lambda: self.api.get(f"/v1/approvals?status=pending&run_id={run_id}")["data"])
        return asked[0]["id"]

    def decide(self, run_id, decision, **more):
        approval = self.approval(run_id)
        self.api.post(f"/v1/approvals/{approval}/decision", {"decision": decision, **more})

    def trace(self, run_id):
        return self.api_of[run_id].trace(run_id)
