/* Who asks for memory, how often, and how much. */
field:::malloc
{
	@calls[execname] = count();
	@bytes[execname] = sum(arg0);
}

END
{
	printa("%-10s %@8d calls %@8d bytes\n", @calls, @bytes);
}
