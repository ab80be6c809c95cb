/* -q | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success
{
	printf("%s %s %s %d %d %s\n", strchr(stringof(arg0), 'b'), strrchr(stringof(arg0), '/'),
	    strstr(stringof(arg0), "in"), index(stringof(arg0), "/"), rindex(stringof(arg0), "/"),
	    strjoin(stringof(arg0), "!"));
}
