-- A function that runs as answerable_app is nobody's to call but those who must. A trigger asks for no such right when it fires.
SET LOCAL ROLE answerable_app;
REVOKE ALL ON FUNCTION rules_change() FROM PUBLIC;
RESET ROLE;
