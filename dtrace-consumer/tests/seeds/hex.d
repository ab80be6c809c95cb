/* Numbers as text, in a base. */
field:::malloc
/arg0 < 300/
{
	printf("%s %s %s\n", lltostr(arg0, 16), lltostr(arg0, 8), lltostr(-arg0));
}
