/* | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success
{
	@sum["sum"] = sum(strlen(stringof(arg0)));
	@min["min"] = min(strlen(stringof(arg0)));
	@max["max"] = max(strlen(stringof(arg0)));
	@avg["avg"] = avg(strlen(stringof(arg0)));
}
