/* The largest three, every so often and at the end. */
field:::malloc
{
	@[arg0] = count();
}

tick-1s
{
	trunc(@, 3);
}

END
{
	trunc(@, 3);
	printa("%6d %@d\n", @);
}
