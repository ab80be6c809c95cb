/* One value of a text in JSON. */
field:::request
/json(copyinstr(arg0), "ok.val") != NULL/
{
	printf("%s\n", json(copyinstr(arg0), "ok.val"));
}
